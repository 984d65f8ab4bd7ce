// Bins: a heap for each size class over one shared heap below (segregated storage). Each bin is a
// small stack of its own, given as layers: Bins<PowersOfTwo<16, 4096>, FreeList>. Strict: a block
// never leaves its class. Sizes above the last class go below unchanged.
#pragma once

#include "strata/layers/classes.h"
#include "strata/layers/heap.h"
#include "strata/layers/ref.h"

namespace strata::layers {

template <SizeClasses Classes, class... PerBin>
struct Bins {
  template <Heap Below>
  class On : public Through<Below> {
    using Bin = Stack<PerBin..., Ref<Below>>;

   public:
    static constexpr size_t alignment = Bin::alignment;
    static constexpr bool thread_safe = Bin::thread_safe && Below::thread_safe;

    template <class... Args>
      requires std::constructible_from<Below, Args...>
    explicit On(Args&&... args)
        : On(std::make_index_sequence<Classes::count>(), std::forward<Args>(args)...) {}

    void* allocate(size_t size) {
      if (size > Classes::largest) [[unlikely]]
        return this->next_.allocate(size);
      const size_t c = Classes::of(size);
      return bins_[c].allocate(Classes::size(c));
    }
    void deallocate(void* p, size_t size) {
      if (size > Classes::largest) [[unlikely]]
        return this->next_.deallocate(p, size);
      const size_t c = Classes::of(size);
      bins_[c].deallocate(p, Classes::size(c));
    }
    void forget() {
      for (Bin& b : bins_) b.forget();
      Through<Below>::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      for (Bin& b : bins_) b.forget();
      this->next_.clear();
    }
    Bin& bin(size_t c) { return bins_[c]; }

   private:
    template <size_t... kIndex, class... Args>
    explicit On(std::index_sequence<kIndex...>, Args&&... args)
        : Through<Below>(std::forward<Args>(args)...), bins_{((void)kIndex, Bin(this->next_))...} {}

    Bin bins_[Classes::count];
  };
};

}  // namespace strata::layers
