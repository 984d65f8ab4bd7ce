// OnlyLive: asks the heap below whether a block is live before it takes it back or resizes it, and
// ends the program with one line if it is not. For heaps that can tell but do not ask by
// themselves, such as Reap.
#pragma once

#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"

namespace strata::layers {

struct OnlyLive {
  template <Heap Below>
  class On : public Through<Below> {
    static_assert(
        requires(const Below& b, void* p) { static_cast<bool>(b.is_live(p)); },
        "OnlyLive needs a heap that knows which of its blocks are live, such as Reap");

   public:
    using Through<Below>::Through;

    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      Require(p);
      this->next_.deallocate(p);
    }
    void deallocate(void* p, size_t size) {
      Require(p);
      this->next_.deallocate(p, size);
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      Require(p);
      return this->next_.resize(p, size);
    }
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      Require(p);
      return this->next_.remap(p, size);
    }

   private:
    void Require(void* p) const {
      if (reinterpret_cast<uintptr_t>(p) % Below::alignment != 0 || !this->next_.is_live(p))
          [[unlikely]] {
        DieOfDeadBlock();
      }
    }
  };
};

}  // namespace strata::layers
