# strata_add_malloc(NAME SOURCE...): a shared library, lib${NAME}.so, that is the malloc of the process
# which preloads or links it. One of the sources includes strata/as_malloc.h. What such a library has
# besides the heap is in malloc/ beside this file where Strata is installed; in a project that has
# Strata as a folder of its own it is in src/.
function(strata_add_malloc name)
  get_filename_component(dir "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/malloc" REALPATH)
  if(NOT EXISTS "${dir}")
    get_filename_component(dir "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src" REALPATH)
  endif()
  file(GLOB parts "${dir}/heaps/preload/*.cpp")
  list(APPEND parts "${dir}/base/check.cpp" "${dir}/base/message.cpp")
  # It catches what a new-handler throws, also in a project without exceptions.
  set_source_files_properties("${dir}/heaps/preload/nothrow_new.cpp"
    PROPERTIES COMPILE_OPTIONS "-fexceptions")
  add_library(${name} SHARED ${ARGN} ${parts})
  target_include_directories(${name} PRIVATE "${dir}"
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
