// Ref: a source that passes calls to a heap which lives elsewhere, so that several stacks can share
// one: all but clear(), which would be the others' end too, and the locks, which are visited where
// the heap lives. The heap must outlive it.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <Heap H>
class Ref {
 public:
  static constexpr size_t alignment = H::alignment;
  static constexpr bool thread_safe = H::thread_safe;
  // They go to the one heap, by whichever reference.
  static constexpr bool blocks_stand_alone = true;
  static constexpr bool blocks_as_below = true;
  static constexpr size_t skew = internal::SkewOf<H>();
  static constexpr bool one_size = internal::OneSize<H>();
  static constexpr bool cleared_from_aside = internal::ClearedFromAside<H>();

  constexpr explicit Ref(H& heap) : heap_(&heap) {}

  void* allocate(size_t size) { return heap_->allocate(size); }
  void* allocate(size_t size, size_t align)
    requires AlignedHeap<H>
  {
    return heap_->allocate(size, align);
  }
  void deallocate(void* p, size_t size) { heap_->deallocate(p, size); }
  void deallocate(void* p)
    requires SizedHeap<H>
  {
    heap_->deallocate(p);
  }
  size_t size_of(void* p)
    requires SizedHeap<H>
  {
    return heap_->size_of(p);
  }
  bool resize(void* p, size_t size)
    requires ResizableHeap<H>
  {
    return heap_->resize(p, size);
  }
  void* remap(void* p, size_t size)
    requires RemappingHeap<H>
  {
    return heap_->remap(p, size);
  }
  bool reads_zero(void* p)
    requires ZeroKnowingHeap<H>
  {
    return heap_->reads_zero(p);
  }
  bool owns(const void* p) const
    requires OwningHeap<H>
  {
    return heap_->owns(p);
  }
  bool is_to_heap_of(const Ref& other) const { return heap_ == other.heap_; }

 private:
  H* heap_;
};

}  // namespace strata::layers
