// Fixed: all blocks are of kBytes. A smaller request gets as many, a larger one null, so that what
// is below sees one size: a FreeList needs that.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <size_t kBytes>
struct Fixed {
  static_assert(kBytes != 0 && kBytes <= kMaxRequest, "Fixed: blocks of at least a byte");

  template <Heap Below>
  class On : public Over<Below> {
   public:
    static constexpr bool one_size = false;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();

    using Over<Below>::Over;
    ~On() { drain(kBytes); }

    void* allocate(size_t size) { return size > kBytes ? nullptr : this->next_.allocate(kAsked); }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return size > kBytes ? nullptr : this->next_.allocate(kAsked, align);
    }
    void* allocate_kept(size_t size)
      requires KeepingHeap<Below>
    {
      return size > kBytes ? nullptr : this->next_.allocate_kept(kAsked);
    }
    void deallocate(void* p, size_t) { this->next_.deallocate(p, kAsked); }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      this->next_.deallocate(p);
    }
    size_t size_of(void*)
      requires SizedHeap<Below>
    {
      return kBytes;
    }
    // It keeps its bytes.
    bool resize(void*, size_t size)
      requires SizedHeap<Below>
    {
      return size <= kBytes;
    }
    bool reads_zero(void* p)
      requires ZeroKnowingHeap<Below>
    {
      return this->next_.reads_zero(p);
    }
    void drain(size_t) { Over<Below>::drain(kAsked); }
    void clear()
      requires ClearableHeap<Below>
    {
      this->next_.clear();
    }

   private:
    static constexpr size_t kAsked = internal::ForOneSize<Below>(kBytes);
  };
};

}  // namespace strata::layers
