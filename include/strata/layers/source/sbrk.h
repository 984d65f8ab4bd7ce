// Sbrk: a source. Consecutive parts of the process's data segment, as malloc took its memory when
// it was young, so that a heap above can let its last region grow and shrink (Coalesce does). It
// lives with others that move the break: what they take is passed over. Where the break cannot
// move, mappings serve.
#pragma once

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "strata/layers/heap.h"
#include "strata/layers/source/mmap.h"

namespace strata::layers {

class Sbrk {
 public:
  static constexpr size_t alignment = 4096;
  static constexpr bool thread_safe = false;
  static constexpr bool divisible = true;  // see Mmap

  void* allocate(size_t size) {
    if (size > kMaxRequest - alignment) return nullptr;
    const size_t bytes = RoundUpBlock(size, alignment);
    void* p = Extend(bytes);
    return p != nullptr ? p : mmap_.allocate(bytes);
  }
  void deallocate(void* p, size_t size) {
    const int before = errno;
    const size_t bytes = RoundUpBlock(size, alignment);
    const auto at = reinterpret_cast<uintptr_t>(p);
    if (at >= end_ || at < begin_) {
      mmap_.deallocate(p, bytes);
    } else {
      // A mapping may lie right behind the segment, and both come back as one.
      const size_t inside = bytes < end_ - at ? bytes : end_ - at;
      if (inside < bytes) mmap_.deallocate(static_cast<char*>(p) + inside, bytes - inside);
      shrink(p, inside);
    }
    errno = before;
  }
  // `bytes` of what was handed out last, which begin at p, are not in use any more. They leave the
  // segment if they are its end.
  void shrink(void* p, size_t bytes) {
    const int before = errno;
    const auto at = reinterpret_cast<uintptr_t>(p);
    if (at < begin_ || at >= end_) {
      munmap(p, bytes);
    } else if (at + bytes == end_ && reinterpret_cast<uintptr_t>(sbrk(0)) == end_ &&
               sbrk(-static_cast<intptr_t>(bytes)) != kFailed) {
      end_ = at;
    } else {
      madvise(p, bytes, MADV_DONTNEED);
    }
    errno = before;
  }

 private:
  static inline void* const kFailed = reinterpret_cast<void*>(-1);

  void* Extend(size_t bytes) {
    const int before = errno;
    const auto now = reinterpret_cast<uintptr_t>(sbrk(0));
    const size_t pad = RoundUp(now, alignment) - now;
    void* raw = sbrk(static_cast<intptr_t>(bytes + pad));
    const auto at = reinterpret_cast<uintptr_t>(raw) + pad;
    // Another thread may have moved the break in between; what we got then is lost.
    if (raw == kFailed || at % alignment != 0) {
      errno = before;
      return nullptr;
    }
    if (begin_ == 0) begin_ = at;
    end_ = at + bytes;
    return reinterpret_cast<void*>(at);
  }

  uintptr_t begin_ = 0, end_ = 0;  // of what the segment gave us, with what others took in between
  [[no_unique_address]] Mmap mmap_;
};

}  // namespace strata::layers
