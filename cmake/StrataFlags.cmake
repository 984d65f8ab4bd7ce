# Compiler flags. strata_headers carries the include paths, strata_flags what only the run time
# is compiled with, strata_warnings what everything of ours is. An allocator may not depend on
# what calls the allocator: no exceptions, no RTTI, no libstdc++, no guard for statics, and TLS
# that never has to be allocated.
add_library(strata_headers INTERFACE)
target_include_directories(strata_headers INTERFACE
  "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")

add_library(strata_warnings INTERFACE)
target_compile_options(strata_warnings INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Werror=thread-safety>)

# The compiler may otherwise turn calloc's own body into a call of calloc, or drop a malloc whose
# result it thinks unused.
set(STRATA_NO_BUILTINS "")
foreach(name malloc free calloc realloc aligned_alloc memalign posix_memalign valloc pvalloc
        reallocarray strdup strndup)
  list(APPEND STRATA_NO_BUILTINS -fno-builtin-${name})
endforeach()

add_library(strata_flags INTERFACE)
target_link_libraries(strata_flags INTERFACE strata_warnings)
target_compile_options(strata_flags INTERFACE
  -ffunction-sections
  -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-semantic-interposition
  -fvisibility=hidden -fvisibility-inlines-hidden -ftls-model=initial-exec
  $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>
  # A conditional branch of aarch64 reaches 1 MiB, and a restartable sequence must not branch into
  # a part of its function that lies elsewhere.
  $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>:$<$<CXX_COMPILER_ID:GNU>:-fno-reorder-blocks-and-partition>>
  ${STRATA_NO_BUILTINS})

if(STRATA_SANITIZE)
  add_compile_options(-fsanitize=${STRATA_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -DSTRATA_SANITIZED=1)
  add_link_options(-fsanitize=${STRATA_SANITIZE})
  if(STRATA_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=vptr)  # the run time has no RTTI to check by, the tests have
  endif()
endif()
if(STRATA_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
