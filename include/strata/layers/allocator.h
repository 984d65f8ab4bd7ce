// Allocator: a heap for the containers of the standard library.
//
//   Stack<Bins<Geometric<4096>, FreeList>, Bump<>, Mmap> heap;
//   std::vector<int, Allocator<int, decltype(heap)>> numbers(heap);
//
// It refers to the heap, which must outlive the container, and is for as many threads as that is.
// Two are equal if they refer to one heap. Out of memory is std::bad_alloc; in a program without
// exceptions one line and the end.
#pragma once

#include "strata/layers/detail/any_alignment.h"
#include "strata/layers/heap.h"
#include "strata/out_of_memory.h"

namespace strata::layers {

template <class T, Heap H>
class Allocator {
  static_assert(!internal::OneSize<H>(),
                "Allocator: containers ask for any size; put Fixed<bytes> or Bins above FreeList");

 public:
  using value_type = T;
  // What a container takes over goes on where it was allocated.
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  Allocator(H& heap) : heap_(&heap) {}  // NOLINT(google-explicit-constructor): vector<...> v(heap)
  template <class U>
  Allocator(const Allocator<U, H>& other)  // NOLINT(google-explicit-constructor): as the standard's
      : heap_(&other.heap()) {}

  T* allocate(size_t count) {
    void* p = nullptr;
    if (count <= kMaxRequest / sizeof(T)) [[likely]]
      p = internal::TakeAligned(*heap_, count * sizeof(T), alignof(T));
    if (p == nullptr) [[unlikely]]
      strata::internal::ThrowOutOfMemory();
    return static_cast<T*>(p);
  }
  void deallocate(T* p, size_t count) {
    internal::GiveAligned(*heap_, p, count * sizeof(T), alignof(T));
  }
  H& heap() const { return *heap_; }

  template <class U>
  bool operator==(const Allocator<U, H>& other) const {
    return heap_ == &other.heap();
  }

 private:
  H* heap_;
};

}  // namespace strata::layers
