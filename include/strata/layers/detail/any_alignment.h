// Blocks aligned as C++ asks for them, from any heap: one that aligns by itself does it; else a
// larger block is taken, and where it begins is kept in front of the aligned part. What Allocator
// and Resource are made of.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers::internal {

template <Heap H>
void* TakeAligned(H& heap, size_t size, size_t align) {
  if (align <= H::alignment) [[likely]]
    return heap.allocate(size);
  if constexpr (AlignedHeap<H>) {
    return heap.allocate(size, align);
  } else {
    static_assert(H::alignment >= sizeof(void*), "the heap aligns to less than a pointer");
    if (align > kMaxRequest / 2 || size > kMaxRequest / 2) return nullptr;
    void* raw = heap.allocate(AtLeastAByte(size) + align);
    if (raw == nullptr) return nullptr;
    const auto end = reinterpret_cast<uintptr_t>(raw) + align;
    auto** p = reinterpret_cast<void**>(end & ~(align - 1));
    p[-1] = raw;
    return p;
  }
}

template <Heap H>
void GiveAligned(H& heap, void* p, size_t size, size_t align) {
  if (align <= H::alignment || AlignedHeap<H>) [[likely]]
    return heap.deallocate(p, size);
  heap.deallocate(static_cast<void**>(p)[-1], AtLeastAByte(size) + align);
}

}  // namespace strata::layers::internal
