// TryFirst: asks one heap, and the heap below only when that one has nothing: a static buffer
// before the kernel, hugepages before small ones. A block goes back to where it came from, so the
// first must know its own.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <class First>
struct TryFirst {
  static_assert(
      OwningHeap<First>,
      "TryFirst needs a whole heap that knows its own blocks (owns), such as StaticBuffer");

  template <Heap Below>
  class On : public Over<Below> {
   public:
    static constexpr size_t alignment =
        First::alignment < Below::alignment ? size_t{First::alignment} : size_t{Below::alignment};
    static constexpr bool thread_safe = First::thread_safe && Below::thread_safe;
    static constexpr bool cleared_from_aside = internal::ClearedFromAside<First, Below>();

    using Over<Below>::Over;

    void* allocate(size_t size) {
      void* p = first_.allocate(size);
      return p != nullptr ? p : this->next_.allocate(size);
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      void* p = nullptr;
      if constexpr (AlignedHeap<First>) p = first_.allocate(size, align);
      return p != nullptr ? p : this->next_.allocate(size, align);
    }
    void deallocate(void* p, size_t size) {
      if (first_.owns(p)) {
        first_.deallocate(p, size);
      } else {
        this->next_.deallocate(p, size);
      }
    }
    void deallocate(void* p)
      requires SizedHeap<First> && SizedHeap<Below>
    {
      if (first_.owns(p)) {
        first_.deallocate(p);
      } else {
        this->next_.deallocate(p);
      }
    }
    size_t size_of(void* p)
      requires SizedHeap<First> && SizedHeap<Below>
    {
      return first_.owns(p) ? first_.size_of(p) : this->next_.size_of(p);
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<First> && ResizableHeap<Below>
    {
      return first_.owns(p) ? first_.resize(p, size) : this->next_.resize(p, size);
    }
    // The first's blocks are moved by a copy.
    void* remap(void* p, size_t size)
      requires SizedHeap<First> && RemappingHeap<Below>
    {
      return first_.owns(p) ? nullptr : this->next_.remap(p, size);
    }
    bool reads_zero(void* p)
      requires ZeroKnowingHeap<Below>
    {
      return !first_.owns(p) && this->next_.reads_zero(p);
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
    // The first has memory of its own, which does not go with what is below.
    void forget() {
      if constexpr (ClearableHeap<First>) first_.clear();
      Over<Below>::forget();
    }
    template <class F>
    void visit_locks(F&& f) {
      if constexpr (requires { first_.visit_locks(f); }) first_.visit_locks(f);
      Over<Below>::visit_locks(f);
    }
    First& first() { return first_; }

   private:
    First first_;
  };
};

}  // namespace strata::layers
