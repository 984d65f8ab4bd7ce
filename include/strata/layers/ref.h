// Ref: a source that passes everything to a heap which lives elsewhere, so that several stacks can
// share one. The heap must outlive it.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <Heap H>
class Ref {
 public:
  static constexpr size_t alignment = H::alignment;
  static constexpr bool thread_safe = H::thread_safe;
  static constexpr size_t skew = internal::SkewOf<H>();

  constexpr explicit Ref(H& heap) : heap_(&heap) {}

  void* allocate(size_t size) { return heap_->allocate(size); }
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
  bool owns(const void* p) const
    requires OwningHeap<H>
  {
    return heap_->owns(p);
  }

 private:
  H* heap_;
};

}  // namespace strata::layers
