# libstrata-trace.so, which records the allocations of a program over whatever malloc it has, and
# strata-replay, which does them again. Neither is part of libstrata.so.
file(GLOB STRATA_TRACE_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/trace/*.cpp")

add_library(strata_trace SHARED ${STRATA_TRACE_SOURCES})
target_link_libraries(strata_trace PRIVATE strata_headers strata_flags strata_core_archive)
set_target_properties(strata_trace PROPERTIES
  OUTPUT_NAME strata-trace LINKER_LANGUAGE C
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/strata-trace.map")
target_link_options(strata_trace PRIVATE
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/strata-trace.map"
  LINKER:-z,defs LINKER:-z,now LINKER:-z,relro LINKER:-z,nodelete LINKER:-z,noexecstack
  LINKER:--as-needed LINKER:--build-id)

# Without libstdc++, whose start would allocate from the heap that is measured.
file(GLOB STRATA_REPLAY_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/replay/*.cpp")
if(STRATA_REPLAY_SOURCES)
  add_executable(strata_replay ${STRATA_REPLAY_SOURCES})
  target_link_libraries(strata_replay PRIVATE strata_headers strata_flags)
  set_target_properties(strata_replay PROPERTIES OUTPUT_NAME strata-replay LINKER_LANGUAGE C)
  target_link_options(strata_replay PRIVATE LINKER:--build-id)
  if(CMAKE_LIBRARY_OUTPUT_DIRECTORY)
    set_target_properties(strata_replay PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  endif()
  install(TARGETS strata_replay DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/strata")
endif()
install(TARGETS strata_trace LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
