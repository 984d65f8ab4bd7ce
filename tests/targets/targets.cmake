# Tests of a build for another architecture or C library: what differs there, by the programs that
# other tests drive (test_TARGET.py), and for aarch64 the unit tests of what has a file of its own,
# which run under qemu-user and in the machine of test_system.py.
if(NOT STRATA_LIBC STREQUAL "musl")
  set(target ${STRATA_ARCH})
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL)
  foreach(test cache/rseq_stress cache/rseq_control_stress os/side_stack os/readable lifetime/model)
    string(REPLACE "/" "_" name "${test}_test")
    add_executable(${name} "${CMAKE_CURRENT_LIST_DIR}/../${test}_test.cpp")
    target_link_libraries(${name} PRIVATE strata_core strata_warnings GTest::gtest_main)
    target_compile_options(${name} PRIVATE -O1 -g1)
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    if(NOT test MATCHES "rseq")  # which qemu-user has not
      # qemu-user has no seccomp filters.
      add_test(NAME ${test}_test COMMAND ${name} "--gtest_output=xml:${RESULTS}/${name}.xml"
        "--gtest_filter=-*WhereAFilterAnswers"
        WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    endif()
  endforeach()
else()
  set(target ${STRATA_LIBC})
endif()
add_test(NAME targets/test_${target}
  COMMAND "${PROJECT_SOURCE_DIR}/.venv/bin/python" -m pytest -q -p no:cacheprovider
          "--junitxml=${RESULTS}/targets.test_${target}.xml"
          "${CMAKE_CURRENT_LIST_DIR}/test_${target}.py"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
set_property(TEST targets/test_${target} PROPERTY ENVIRONMENT
  "STRATA_LIB=$<TARGET_FILE:strata_shared>"
  "STRATA_ARCHIVE=$<TARGET_FILE:strata_static>"
  "STRATA_BUILD_DIR=${PROJECT_BINARY_DIR}"
  "STRATA_TARGET=${target}"
  "PYTHONDONTWRITEBYTECODE=1")
