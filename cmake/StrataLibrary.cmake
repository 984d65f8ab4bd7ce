# libstrata.so and libstrata.a, from the same objects but for one; libstrata-musl.* for musl.
set(STRATA_NAME strata)
if(NOT STRATA_LIBC STREQUAL "glibc")
  set(STRATA_NAME strata-${STRATA_LIBC})
endif()
set(STRATA_WATCHED_SOURCES ${STRATA_MALLOC_SOURCES})
list(FILTER STRATA_WATCHED_SOURCES INCLUDE REGEX "/watched_calls\\.cpp$")
list(FILTER STRATA_WATCHED_SOURCES EXCLUDE REGEX "/unwatched_calls\\.cpp$")
list(REMOVE_ITEM STRATA_MALLOC_SOURCES ${STRATA_WATCHED_SOURCES})
add_library(strata_malloc OBJECT ${STRATA_MALLOC_SOURCES})
target_link_libraries(strata_malloc PUBLIC strata_headers PRIVATE strata_flags)
set_target_properties(strata_malloc PROPERTIES UNITY_BUILD ${STRATA_UNITS} UNITY_BUILD_MODE GROUP)

# Stands before libc's functions: in the shared library alone, where there is a next definition.
add_library(strata_watched OBJECT ${STRATA_WATCHED_SOURCES})
target_link_libraries(strata_watched PUBLIC strata_headers PRIVATE strata_flags)

# What every library that replaces malloc holds: the parts that know the heap by its exported names.
add_library(strata_front OBJECT ${STRATA_FRONT_SOURCES})
target_link_libraries(strata_front PUBLIC strata_headers PRIVATE strata_flags)
# nothrow new has to catch what a new_handler throws, and what a cap's function throws must leave the
# thread in its scope; nothing else in the run time unwinds.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/heaps/preload/nothrow_new.cpp"
  "${PROJECT_SOURCE_DIR}/src/regions/cap_call.cpp" PROPERTIES COMPILE_OPTIONS "-fexceptions")

set(STRATA_OBJECTS $<TARGET_OBJECTS:strata_malloc> $<TARGET_OBJECTS:strata_front>)
if(STRATA_CORE_SOURCES)
  list(APPEND STRATA_OBJECTS $<TARGET_OBJECTS:strata_core>)
endif()

# The shared library is linked as C: that names no libstdc++, and -z defs then proves that none
# is needed. nodelete: blocks outlive a dlclose.
set(STRATA_MAP "${PROJECT_SOURCE_DIR}/cmake/strata.map")
add_library(strata_shared SHARED ${STRATA_OBJECTS} $<TARGET_OBJECTS:strata_watched>)
add_library(Strata::strata ALIAS strata_shared)
set_target_properties(strata_shared PROPERTIES
  OUTPUT_NAME ${STRATA_NAME} EXPORT_NAME strata VERSION ${PROJECT_VERSION} SOVERSION 0
  LINKER_LANGUAGE C LINK_DEPENDS "${STRATA_MAP}")
set(STRATA_LINK_OPTIONS
  "LINKER:--version-script=${STRATA_MAP}" LINKER:-z,defs LINKER:-z,now LINKER:-z,relro
  LINKER:-z,nodelete LINKER:-z,noexecstack LINKER:--as-needed LINKER:--build-id
  LINKER:--hash-style=gnu)
target_link_options(strata_shared PRIVATE ${STRATA_LINK_OPTIONS})
include(cmake/StrataOrder.cmake)
strata_order_start_up(strata_shared "${PROJECT_SOURCE_DIR}/cmake/start_up_order.txt")

# The archive holds one object, so that a program gets all of the overrides or none, never half
# of ours and half of libc's.
include(cmake/StrataCombine.cmake)
strata_find_combiner()
set(STRATA_COMBINED "${PROJECT_BINARY_DIR}/strata_combined.o")
strata_combine_commands(STRATA_COMBINE_COMMANDS "${STRATA_COMBINE_LINKER}"
  "${STRATA_COMBINE_OBJCOPY}" "${STRATA_COMBINED}" ${STRATA_OBJECTS})
add_custom_command(
  OUTPUT "${STRATA_COMBINED}"
  ${STRATA_COMBINE_COMMANDS}
  DEPENDS ${STRATA_OBJECTS}
  COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Combining the objects of libstrata.a into one")
set_source_files_properties("${STRATA_COMBINED}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
add_library(strata_static STATIC "${STRATA_COMBINED}")
add_library(Strata::static ALIAS strata_static)
set_target_properties(strata_static PROPERTIES
  OUTPUT_NAME ${STRATA_NAME} EXPORT_NAME static LINKER_LANGUAGE C)
# A program that allocates only through libc (strdup, getline) names no symbol of the archive.
target_link_options(strata_static INTERFACE LINKER:--undefined=malloc)

foreach(lib strata_shared strata_static)
  target_include_directories(${lib} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
