// SplitAt: requests of up to kLimit bytes go to one heap, larger ones to another. The heap for the
// small ones is a stack of its own over the heap below, which serves the large ones directly:
// SplitAt<1024, Bins<...>>.
#pragma once

#include "strata/layers/heap.h"
#include "strata/layers/source/ref.h"

namespace strata::layers {

template <size_t kLimit, class... Small>
struct SplitAt {
  template <Heap Below>
  class On : public Over<Below> {
    using SmallHeap = Stack<Small..., Ref<Below>>;
    // Its children would keep blocks of a heap that was cleared.
    static_assert(!internal::ClearedFromAside<SmallHeap>(), "SplitAt: Nested goes above it");

   public:
    static constexpr size_t alignment = SmallHeap::alignment < Below::alignment
                                            ? size_t{SmallHeap::alignment}
                                            : size_t{Below::alignment};
    static constexpr bool thread_safe = SmallHeap::thread_safe && Below::thread_safe;
    static constexpr bool blocks_stand_alone = internal::StandAlone<SmallHeap, Below>();

    template <class... Args>
      requires std::constructible_from<Below, Args...>
    constexpr explicit On(Args&&... args)
        : Over<Below>(std::forward<Args>(args)...), small_(this->next_) {}

    void* allocate(size_t size) {
      return size <= kLimit ? small_.allocate(size) : this->next_.allocate(size);
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<SmallHeap> && AlignedHeap<Below>
    {
      return size <= kLimit ? small_.allocate(size, align) : this->next_.allocate(size, align);
    }
    void deallocate(void* p, size_t size) {
      if (size <= kLimit) {
        small_.deallocate(p, size);
      } else {
        this->next_.deallocate(p, size);
      }
    }
    bool owns(const void* p) const
      requires OwningHeap<SmallHeap> && OwningHeap<Below>
    {
      return small_.owns(p) || this->next_.owns(p);
    }
    void forget() {
      small_.forget();
      Over<Below>::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      small_.forget();
      this->next_.clear();
    }
    template <class F>
    void visit_locks(F&& f) {
      small_.visit_locks(f);
      Over<Below>::visit_locks(f);
    }
    SmallHeap& small() { return small_; }

   private:
    SmallHeap small_;
  };
};

}  // namespace strata::layers
