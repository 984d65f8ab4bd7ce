// Malloc: a source over the malloc of the process, so that a heap's chunks are counted, capped and
// found where all else of the program is. Not for a heap that is that malloc itself.
#pragma once

#include <errno.h>
#include <malloc.h>

#include <cstdlib>

#include "strata/layers/heap.h"

namespace strata::layers {

struct Malloc {
  static constexpr size_t alignment = kDefaultAlignment;
  static constexpr bool thread_safe = true;
  static constexpr bool blocks_stand_alone = true;

  void* allocate(size_t size) {
    if (size > kMaxRequest) return nullptr;
    return KeepingErrno([&] { return malloc(size + (size == 0)); });
  }
  void* allocate(size_t size, size_t align) {
    if (align <= alignment) return allocate(size);
    constexpr size_t kMostAlign = size_t{1} << 30;  // as in Strata's own; larger ones make no sense
    if (size > kMaxRequest || align > kMostAlign) return nullptr;
    return KeepingErrno([&]() -> void* {
      void* p = nullptr;
      return posix_memalign(&p, align, size + (size == 0)) == 0 ? p : nullptr;
    });
  }
  void deallocate(void* p, size_t) { free(p); }
  void deallocate(void* p) { free(p); }
  size_t size_of(void* p) { return malloc_usable_size(p); }
  // Where it lies, by page tables or by a copy: as realloc knows best. Out of line, or gcc takes a
  // layer that looks up its record of p for a use of what was freed.
  [[gnu::noinline]] void* remap(void* p, size_t size) {
    if (size == 0 || size > kMaxRequest) return nullptr;
    return KeepingErrno([&] { return realloc(p, size); });
  }

 private:
  template <class F>
  static void* KeepingErrno(F call) {
    const int before = errno;
    void* p = call();
    asm volatile("" ::: "memory");  // gcc takes malloc for one that leaves errno as it is
    errno = before;
    return p;
  }
};

}  // namespace strata::layers
