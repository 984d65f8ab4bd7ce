// Resource: a heap as a std::pmr::memory_resource, for every container of std::pmr.
//
//   Resource<Stack<Bins<Geometric<4096>, FreeList>, Bump<>, Mmap>> own;
//   std::pmr::vector<int> numbers(&own);
//
// It has the heap in it; Resource shared(heap) refers to one that lives elsewhere, and all that
// refer to one are equal. For as many threads as the heap is. Out of memory is std::bad_alloc; in a
// program without exceptions one line and the end.
#pragma once

#include <memory_resource>

#include "strata/layers/detail/any_alignment.h"
#include "strata/layers/heap.h"
#include "strata/layers/source/ref.h"
#include "strata/out_of_memory.h"
#include "strata/resource_class.h"

namespace strata::layers {

template <Heap H>
class Resource : public std::pmr::memory_resource {
  static_assert(!internal::OneSize<H>(),
                "Resource: containers ask for any size; put Fixed<bytes> or Bins above FreeList");

 public:
  // The arguments are the heap's.
  template <class... Args>
    requires std::constructible_from<H, Args...>
  explicit Resource(Args&&... args) : heap_(std::forward<Args>(args)...) {}
  template <std::same_as<H> Other>
    requires(!std::constructible_from<H, Other&>)
  explicit Resource(Other&) {
    static_assert(
        sizeof(Other) == 0,
        "Resource has its heap in it; for one elsewhere write Resource name(heap), without "
        "<H>");
  }

  H& heap() { return heap_; }

 private:
  void* do_allocate(size_t size, size_t align) override {
    void* p = internal::TakeAligned(heap_, size, align);
    if (p == nullptr) [[unlikely]]
      strata::internal::ThrowOutOfMemory();
    return p;
  }
  void do_deallocate(void* p, size_t size, size_t align) override {
    internal::GiveAligned(heap_, p, size, align);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    if (this == &other) return true;
    if constexpr (requires(const H& h) { h.is_to_heap_of(h); }) {
      return strata::internal::ClassOf(other) == strata::internal::ClassOf(*this) &&
             heap_.is_to_heap_of(static_cast<const Resource&>(other).heap_);
    }
    return false;
  }

  H heap_;
};

template <Heap H>
Resource(H&) -> Resource<Ref<H>>;

}  // namespace strata::layers
