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
