# What `strata pageutil` runs programs with: a plugin for qemu-user, and libstrata-places.so, the
# front of libstrata-trace.so with another recorder, which tells the plugin of blocks. Neither is
# part of libstrata.so.
set(STRATA_PAGEUTIL "${PROJECT_SOURCE_DIR}/tools/pageutil")

# A plugin's undefined names are QEMU's.
add_library(strata_pageutil_plugin MODULE "${STRATA_PAGEUTIL}/plugin.cpp")
target_link_libraries(strata_pageutil_plugin PRIVATE strata_warnings)
target_compile_options(strata_pageutil_plugin PRIVATE -fvisibility=hidden)
set_target_properties(strata_pageutil_plugin PROPERTIES PREFIX "" OUTPUT_NAME strata-pageutil)

add_library(strata_places SHARED
  "${STRATA_PAGEUTIL}/guest.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/next_malloc.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/preload.cpp"
  "${PROJECT_SOURCE_DIR}/src/trace/preload_new.cpp")
target_include_directories(strata_places PRIVATE "${STRATA_PAGEUTIL}")
target_link_libraries(strata_places PRIVATE strata_headers strata_flags strata_core_archive)
set_target_properties(strata_places PROPERTIES
  OUTPUT_NAME strata-places LINKER_LANGUAGE C
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/strata-trace.map")
target_link_options(strata_places PRIVATE
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/strata-trace.map"
  LINKER:-z,defs LINKER:-z,now LINKER:-z,relro LINKER:-z,nodelete LINKER:-z,noexecstack
  LINKER:--as-needed LINKER:--build-id)

install(TARGETS strata_pageutil_plugin LIBRARY DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/strata")
install(TARGETS strata_places LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
