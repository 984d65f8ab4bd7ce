// The functions that a replay calls: the process's malloc, or ones that do next to nothing, with
// which a replay takes what the replayer itself takes.
#pragma once

#include <stdlib.h>

#include "memory.h"

namespace strata::replay {

struct ProcessFunctions {
  static void* Malloc(size_t size) { return malloc(size); }
  static void* Calloc(size_t size) { return calloc(1, size); }
  static void* Realloc(void* p, size_t size) { return realloc(p, size); }
  static void* Aligned(size_t alignment, size_t size) {
    void* p = nullptr;
    if (alignment < sizeof(void*)) alignment = sizeof(void*);
    return posix_memalign(&p, alignment, size) == 0 ? p : nullptr;
  }
  static void Free(void* p) { free(p); }
};

// All blocks are one piece of memory. Calls are made, as to malloc, but no more than that.
struct EmptyFunctions {
  static void SetBlock(char* block, size_t size) {
    block_ = block;
    size_ = size;
  }
  [[gnu::noinline]] static void* Malloc(size_t size) { return size <= size_ ? block_ : nullptr; }
  [[gnu::noinline]] static void* Calloc(size_t size) { return Malloc(size); }
  [[gnu::noinline]] static void* Realloc(void*, size_t size) { return Malloc(size); }
  [[gnu::noinline]] static void* Aligned(size_t, size_t size) { return Malloc(size); }
  [[gnu::noinline]] static void Free(void* p) { asm volatile("" : : "r"(p) : "memory"); }

 private:
  static inline char* block_ = nullptr;
  static inline size_t size_ = 0;
};

}  // namespace strata::replay
