// Mmap: a source. Each block is a mapping of its own, so memory goes back to the kernel at once;
// for chunks, not for objects.
#pragma once

#include <errno.h>
#include <sys/mman.h>

#include "strata/layers/heap.h"

namespace strata::layers {

struct Mmap {
  static constexpr size_t alignment = 4096;
  static constexpr bool thread_safe = true;
  // Blocks that lie one after the other may come back as one, and one in parts.
  static constexpr bool divisible = true;

  void* allocate(size_t size) {
    if (size > kMaxRequest) return nullptr;
    const int before = errno;
    void* p =
        mmap(nullptr, Bytes(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) return p;
    errno = before;
    return nullptr;
  }
  void deallocate(void* p, size_t size) {
    const int before = errno;
    munmap(p, Bytes(size));  // may be refused where it would leave too many mappings
    errno = before;
  }
  static bool reads_zero(void*) { return true; }
  // The same pages, where there is room for `wanted` bytes; null leaves them.
  void* remap(void* p, size_t size, size_t wanted) {
    if (wanted > kMaxRequest) return nullptr;
    const int before = errno;
    void* moved = mremap(p, Bytes(size), Bytes(wanted), MREMAP_MAYMOVE);
    if (moved != MAP_FAILED) return moved;
    errno = before;
    return nullptr;
  }

 private:
  static size_t Bytes(size_t size) { return RoundUpBlock(size, alignment); }
};

}  // namespace strata::layers
