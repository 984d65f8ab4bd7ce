// AlignedMmap<kUnit>: a source of runs that begin at a multiple of kUnit, each a mapping of its
// own: more address space is mapped than asked for, and what lies before and behind is unmapped
// again.
#pragma once

#include "strata/layers/source/mmap.h"

namespace strata::layers {

template <size_t kUnit>
struct AlignedMmap {
  static_assert(IsPowerOfTwo(kUnit) && kUnit >= Mmap::alignment,
                "AlignedMmap: a power of two of at least a page");
  static constexpr size_t alignment = kUnit;
  static constexpr bool thread_safe = true;

  void* allocate(size_t size) {
    if (size > kMaxRequest - kUnit) return nullptr;
    const size_t bytes = RoundUpBlock(size, Mmap::alignment);
    const size_t more = kUnit - Mmap::alignment;
    auto* whole = static_cast<char*>(Mmap().allocate(bytes + more));
    if (whole == nullptr) return nullptr;
    const size_t before = -reinterpret_cast<uintptr_t>(whole) & (kUnit - 1);
    if (before != 0) Mmap().deallocate(whole, before);
    if (before != more) Mmap().deallocate(whole + before + bytes, more - before);
    return whole + before;
  }
  void deallocate(void* p, size_t size) { Mmap().deallocate(p, size); }
};

}  // namespace strata::layers
