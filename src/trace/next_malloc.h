// The allocation functions of the next library in line, whose malloc is recorded: libc's, or those
// of an allocator that is preloaded behind us. Sits in trace.
#pragma once

#include <cstddef>

namespace strata::trace {

struct NextMalloc {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void (*free)(void*);
  void* (*memalign)(size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  void (*free_sized)(void*, size_t);                  // null in an older libc
  void (*free_aligned_sized)(void*, size_t, size_t);  // null in an older libc
};

// Found at the first call. While the dynamic linker looks them up it allocates itself: that comes
// from a small buffer of ours, see FromBuffer.
const NextMalloc& Next();

// Whether p lies in that buffer: it is never given back.
bool FromBuffer(const void* p);

// A function of the next library by its linker's name; null: it has none.
void* FindNext(const char* name);

}  // namespace strata::trace
