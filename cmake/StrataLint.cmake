# strata-lint-engine, lint/engine: the analyzer behind `strata lint`, in bin/. Only where LLVM 19's
# headers are (llvm-19-dev), whose bitcode it reads; built with the tests, and by `make analyzer`.
find_path(STRATA_LLVM_INCLUDE llvm/IR/Module.h PATHS /usr/lib/llvm-19/include NO_DEFAULT_PATH)
find_library(STRATA_LLVM LLVM-19 PATHS /usr/lib/llvm-19/lib NO_DEFAULT_PATH)
if(STRATA_LLVM_INCLUDE AND STRATA_LLVM AND (CMAKE_LIBRARY_OUTPUT_DIRECTORY OR STRATA_LINT))
  file(GLOB STRATA_LINT_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lint/engine/*.cpp")
  add_executable(strata_lint_engine ${STRATA_LINT_SOURCES})
  if(NOT STRATA_TESTS)
    set_target_properties(strata_lint_engine PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  set_target_properties(strata_lint_engine PROPERTIES OUTPUT_NAME strata-lint-engine)
  if(CMAKE_LIBRARY_OUTPUT_DIRECTORY)
    set_target_properties(strata_lint_engine PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/../bin")
  endif()
  target_include_directories(strata_lint_engine SYSTEM PRIVATE "${STRATA_LLVM_INCLUDE}")
  target_compile_definitions(strata_lint_engine PRIVATE __STDC_CONSTANT_MACROS __STDC_LIMIT_MACROS)
  target_compile_options(strata_lint_engine PRIVATE -fno-exceptions -fno-rtti -Wall -Wextra -Werror)
  target_link_libraries(strata_lint_engine PRIVATE "${STRATA_LLVM}")
  # To compile a file takes a third less so: LLVM's headers are most of it.
  target_compile_options(strata_lint_engine PRIVATE -g1)
  target_precompile_headers(strata_lint_engine PRIVATE <deque> <map> <memory> <set> <string>
    <unordered_map> <vector> <llvm/ADT/DenseSet.h> <llvm/Demangle/Demangle.h>
    <llvm/IR/ConstantRange.h> <llvm/IR/Dominators.h> <llvm/IR/Instructions.h>
    <llvm/IR/IntrinsicInst.h> <llvm/IR/Module.h> <llvm/IR/Operator.h>)
  # Files that define a name which another defines, too, stay apart; so do the longest, which would
  # be compiled last and alone, and those that no list names. A group does not show a file that
  # lacks an include; `make analyzer`, which compiles each, does. To look at each with -fsyntax-only
  # in `make test`, too, would take 42 s of CPU: more than the groups save.
  if(STRATA_TOOL_UNITS)
    set(unit_0 aliases calls errors known library memory ranges rule_places)
    set(unit_1 branches callees conditions fact points_to recursive transfer)
    set(unit_2 callers constraints loops property returns unions)
    foreach(unit 0 1 2)
      list(TRANSFORM unit_${unit} PREPEND "${PROJECT_SOURCE_DIR}/lint/engine/")
      list(TRANSFORM unit_${unit} APPEND ".cpp")
      set_source_files_properties(${unit_${unit}} PROPERTIES UNITY_GROUP "${unit}")
    endforeach()
    set_target_properties(strata_lint_engine PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  endif()
  install(TARGETS strata_lint_engine RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" OPTIONAL)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/lint/properties/"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/strata/lint" FILES_MATCHING PATTERN "*.prop")
endif()
