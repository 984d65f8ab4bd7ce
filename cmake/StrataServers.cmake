# libstrata-apr.so: APR's pools on reaps, for LD_PRELOAD beside libstrata.so (docs/servers.md). It
# needs APR's headers (libapr1-dev); where they are not, the target strata_servers says so and is
# empty. The server modules are built with the servers' own tools: `make servers`.
find_path(APR_INCLUDE_DIR apr_pools.h PATH_SUFFIXES apr-1.0 apr-1)
find_library(APR_LIBRARY NAMES apr-1)

add_custom_target(strata_servers)
if(APR_INCLUDE_DIR AND APR_LIBRARY)
  file(GLOB STRATA_APR_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/servers/apr/*.cpp")
  set(STRATA_APR_MAP "${PROJECT_SOURCE_DIR}/cmake/strata-apr.map")
  add_library(strata_apr SHARED ${STRATA_APR_SOURCES})
  target_include_directories(strata_apr SYSTEM PRIVATE "${APR_INCLUDE_DIR}")
  target_compile_definitions(strata_apr PRIVATE _GNU_SOURCE)
  target_compile_options(strata_apr PRIVATE -fno-plt) # a call for each apr_palloc
  target_link_libraries(strata_apr PRIVATE
    strata_headers strata_flags strata_shared "${APR_LIBRARY}")
  set_target_properties(strata_apr PROPERTIES
    OUTPUT_NAME strata-apr LINKER_LANGUAGE C LINK_DEPENDS "${STRATA_APR_MAP}")
  target_link_options(strata_apr PRIVATE
    "LINKER:--version-script=${STRATA_APR_MAP}" LINKER:-z,defs LINKER:-z,now LINKER:-z,relro
    LINKER:-z,nodelete LINKER:-z,noexecstack LINKER:--as-needed LINKER:--build-id
    LINKER:--hash-style=gnu)
  add_dependencies(strata_servers strata_apr)
  install(TARGETS strata_apr LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" OPTIONAL)
else()
  add_custom_command(TARGET strata_servers POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E echo
            "libstrata-apr.so is not built: it needs the headers of APR (apt-get install libapr1-dev)"
    VERBATIM)
endif()
