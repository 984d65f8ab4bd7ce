// Chunk: rounds requests up to whole multiples of kUnit, so that the heap below sees few sizes and
// its blocks can be reused for one another.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <size_t kUnit>
struct Chunk {
  static_assert(IsPowerOfTwo(kUnit), "Chunk: a power of two");

  template <Heap Below>
  class On : public Through<Below> {
   public:
    using Through<Below>::Through;

    void* allocate(size_t size) {
      return size > kMaxRequest ? nullptr : this->next_.allocate(Rounded(size));
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return size > kMaxRequest ? nullptr : this->next_.allocate(Rounded(size), align);
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      return size <= kMaxRequest && this->next_.resize(p, Rounded(size));
    }
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      return size > kMaxRequest ? nullptr : this->next_.remap(p, Rounded(size));
    }
    void deallocate(void* p, size_t size) { this->next_.deallocate(p, Rounded(size)); }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      this->next_.deallocate(p);
    }

   private:
    static constexpr size_t Rounded(size_t size) { return RoundUpBlock(size, kUnit); }
  };
};

}  // namespace strata::layers
