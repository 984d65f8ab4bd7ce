// When a sanitizer's or valgrind's allocator must see every allocation, Strata stands down: all
// calls are forwarded to the next definition of the same function. Sits in malloc.
#pragma once

#include <cstddef>

namespace strata {

// Whether a sanitizer run time is linked into this process or it runs under valgrind. Allocates
// nothing.
bool MustStandDown();

// Looks up the next allocator. Calls that dlsym itself makes meanwhile are served from a small
// static buffer.
void StandDown();

// The next allocator's functions; valid after StandDown. Free ignores blocks of the static buffer.
struct NextAllocator {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  size_t (*usable_size)(void*);
};
extern NextAllocator g_next;

// Gives a block to the next definition of free.
void FreeByLibc(void* p);

// A block from the static buffer for the time before anything is ready; null when it is used up.
void* EarlyAllocate(size_t size);
bool IsEarly(const void* p);
// The least of `wanted` and what lies between p and the end of the buffer: p's own size is not
// kept.
size_t EarlySize(const void* p, size_t wanted);

}  // namespace strata
