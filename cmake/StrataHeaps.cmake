# libstrata-NAME.so for each src/heaps/libraries/NAME.cpp: a heap composed of layers as the process's
# malloc, linked as libstrata.so is.
add_library(strata_core_archive STATIC $<TARGET_OBJECTS:strata_core>)
set_target_properties(strata_core_archive PROPERTIES
  LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")

file(GLOB heap_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/heaps/libraries/*.cpp")
add_custom_target(strata_heaps)
set(STRATA_HEAP_TARGETS "")
foreach(source ${heap_sources})
  get_filename_component(name "${source}" NAME_WE)
  set(target strata_heap_${name})
  add_library(${target} SHARED "${source}" $<TARGET_OBJECTS:strata_front>)
  target_link_libraries(${target} PRIVATE strata_headers strata_flags strata_core_archive)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME strata-${name} VERSION ${PROJECT_VERSION} SOVERSION 0
    LINKER_LANGUAGE C LINK_DEPENDS "${STRATA_MAP}")
  target_link_options(${target} PRIVATE ${STRATA_LINK_OPTIONS})
  add_dependencies(strata_heaps ${target})
  list(APPEND STRATA_HEAP_TARGETS ${target})
endforeach()
