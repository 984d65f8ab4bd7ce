# strata-simulate, which replays items that begin and end through packing policies for
# `strata simulate`. A program of its own, not part of libstrata.so.
file(GLOB STRATA_SIMULATE_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/simulate/*.cpp")

add_executable(strata_simulate ${STRATA_SIMULATE_SOURCES})
target_link_libraries(strata_simulate PRIVATE strata_headers strata_warnings strata_core_archive)
set_target_properties(strata_simulate PROPERTIES OUTPUT_NAME strata-simulate)
if(CMAKE_LIBRARY_OUTPUT_DIRECTORY)
  set_target_properties(strata_simulate PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
endif()
install(TARGETS strata_simulate DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/strata")
