# strata_add_malloc(NAME SOURCE...): a shared library, lib${NAME}.so, that is the malloc of the process
# which preloads or links it. One of the sources includes strata/as_malloc.h. Beside this file, in
# malloc/, is what such a library has besides the heap.
get_filename_component(STRATA_MALLOC_DIR "${CMAKE_CURRENT_LIST_DIR}/malloc" REALPATH)

function(strata_add_malloc name)
  file(GLOB parts "${STRATA_MALLOC_DIR}/*/*.cpp" "${STRATA_MALLOC_DIR}/*/*/*.cpp")
  add_library(${name} SHARED ${ARGN} ${parts})
  target_include_directories(${name} PRIVATE "${STRATA_MALLOC_DIR}"
    $<TARGET_PROPERTY:Strata::strata,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_features(${name} PRIVATE cxx_std_20)
  # The last: malloc's own body must not become a call of calloc, nor be taken for libc's.
  target_compile_options(${name} PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden
    -fno-builtin-malloc -fno-builtin-free -fno-builtin-calloc -fno-builtin-realloc
    -fno-builtin-aligned_alloc -fno-builtin-posix_memalign -fno-builtin-strdup
    -fno-builtin-strndup)
  target_link_options(${name} PRIVATE LINKER:-z,nodelete LINKER:-z,now)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
