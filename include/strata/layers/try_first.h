// TryFirst: asks one heap, and the heap below only when that one has nothing: a static buffer
// before the kernel, hugepages before small ones. A block goes back to where it came from, so the
// first must know its own.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <OwningHeap First>
struct TryFirst {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr size_t alignment =
        First::alignment < Below::alignment ? size_t{First::alignment} : size_t{Below::alignment};
    static constexpr bool thread_safe = First::thread_safe && Below::thread_safe;

    using Through<Below>::Through;

    void* allocate(size_t size) {
      void* p = first_.allocate(size);
      return p != nullptr ? p : this->next_.allocate(size);
    }
    void deallocate(void* p, size_t size) {
      if (first_.owns(p)) {
        first_.deallocate(p, size);
      } else {
        this->next_.deallocate(p, size);
      }
    }
    bool owns(const void* p) const
      requires OwningHeap<Below>
    {
      return first_.owns(p) || this->next_.owns(p);
    }
    void clear()
      requires ClearableHeap<Below> && ClearableHeap<First>
    {
      first_.clear();
      this->next_.clear();
    }
    template <class F>
    void visit_locks(F&& f) {
      if constexpr (requires { first_.visit_locks(f); }) first_.visit_locks(f);
      Through<Below>::visit_locks(f);
    }
    First& first() { return first_; }

   private:
    First first_;
  };
};

}  // namespace strata::layers
