# The compiler plugin, compiler/: strata-guided.so beside the libraries and strata-cxx in bin/. Only
# where clang 19's headers are (libclang-19-dev, llvm-19-dev); what it loads into is that clang.
find_path(STRATA_CLANG_INCLUDE clang/AST/ASTConsumer.h PATHS /usr/lib/llvm-19/include NO_DEFAULT_PATH)
if(STRATA_CLANG_INCLUDE AND EXISTS "${STRATA_CLANG_INCLUDE}/llvm/Passes/PassPlugin.h"
   AND CMAKE_LIBRARY_OUTPUT_DIRECTORY)
  add_library(strata_guided MODULE "${PROJECT_SOURCE_DIR}/compiler/guided_checks.cpp"
    "${PROJECT_SOURCE_DIR}/compiler/hooks_pass.cpp")
  set_target_properties(strata_guided PROPERTIES PREFIX "" OUTPUT_NAME "strata-guided"
    CXX_VISIBILITY_PRESET hidden)
  target_include_directories(strata_guided SYSTEM PRIVATE "${STRATA_CLANG_INCLUDE}")
  target_compile_definitions(strata_guided PRIVATE __STDC_CONSTANT_MACROS __STDC_LIMIT_MACROS)
  target_compile_options(strata_guided PRIVATE -fno-exceptions -fno-rtti -Wall -Wextra
    -Werror -Wno-nonnull  # gcc 12 finds one in a header of clang
    -O1 -g0)  # half the time to compile it; clang itself takes nearly all of what it runs in
  configure_file("${PROJECT_SOURCE_DIR}/compiler/strata-cxx"
    "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/../bin/strata-cxx" COPYONLY)
  install(TARGETS strata_guided LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" OPTIONAL)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/compiler/strata-cxx" DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
