# `cmake --install`: libraries, headers, StrataConfig.cmake and strata.pc. Everything finds the
# rest relative to itself, so that DESTDIR and --prefix may be chosen at install time.
include(CMakePackageConfigHelpers)

set(STRATA_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Strata")
install(TARGETS strata_shared strata_static EXPORT StrataTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS ${STRATA_HEAP_TARGETS} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/strata"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
# What strata_add_malloc compiles with a heap of the user's.
foreach(part base/check.cpp base/check.h base/errno_keeper.h base/message.cpp base/message.h
        base/units.h base/weak_cxx_run_time.h os/file_list_lock.h os/page_bytes.h heaps/preload)
  get_filename_component(folder "${part}" DIRECTORY)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/src/${part}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/${part}"
      DESTINATION "${STRATA_CMAKE_DIR}/malloc/${folder}")
  else()
    install(FILES "${PROJECT_SOURCE_DIR}/src/${part}"
      DESTINATION "${STRATA_CMAKE_DIR}/malloc/${folder}")
  endif()
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/cmake/StrataMalloc.cmake" DESTINATION "${STRATA_CMAKE_DIR}")
install(EXPORT StrataTargets NAMESPACE Strata:: DESTINATION "${STRATA_CMAKE_DIR}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/StrataConfig.cmake.in" "${PROJECT_BINARY_DIR}/StrataConfig.cmake"
  INSTALL_DESTINATION "${STRATA_CMAKE_DIR}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/StrataConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/StrataConfig.cmake" "${PROJECT_BINARY_DIR}/StrataConfigVersion.cmake"
  DESTINATION "${STRATA_CMAKE_DIR}")

file(RELATIVE_PATH STRATA_PC_PREFIX
  "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file("${PROJECT_SOURCE_DIR}/cmake/strata.pc.in" "${PROJECT_BINARY_DIR}/strata.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/strata.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
