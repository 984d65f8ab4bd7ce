// Makes a heap of layers the malloc of a process: a shared library to preload, or a program itself.
//
//   #include <strata/layers.h>
//   using Mine = strata::layers::Stack<...>;
//   #define STRATA_HEAP Mine
//   #include <strata/as_malloc.h>
//
// in one source file, outside of any namespace; docs/heaps.md says what the heap has to offer and
// how it is built (`strata_add_malloc(mine mine.cpp)` in CMake). Front::heap() is the heap then.
// STRATA_HEAP_NAME, a string, is what the library calls itself; STRATA_HEAP's by default.
#ifndef STRATA_HEAP
#error "strata/as_malloc.h: #define STRATA_HEAP as the heap that is to be malloc"
#endif
#ifdef STRATA_AS_MALLOC_H_
#error "strata/as_malloc.h: a process has one malloc"
#endif
#define STRATA_AS_MALLOC_H_

#include "heaps/preload/front.h"

#ifndef STRATA_HEAP_NAME
#define STRATA_HEAP_NAME_OF(heap) #heap
#define STRATA_HEAP_NAME_OF_VALUE(heap) STRATA_HEAP_NAME_OF(heap)
#define STRATA_HEAP_NAME STRATA_HEAP_NAME_OF_VALUE(STRATA_HEAP)
#endif

using Front = strata::preload::Front<STRATA_HEAP>;
STRATA_PRELOAD_HEAP(STRATA_HEAP_NAME)

#include "heaps/preload/c_exports.inc"
#include "heaps/preload/cxx_exports.inc"
