// Zeroed: every block reads as zero when it is handed out. What a resize or a remap adds to it does
// not.
#pragma once

#include <cstring>

#include "strata/layers/heap.h"

namespace strata::layers {

struct Zeroed {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    using Through<Below>::Through;

    void* allocate(size_t size) {
      return size > kMaxRequest ? nullptr : Clean(this->next_.allocate(size), size);
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return Clean(this->next_.allocate(size, align), size);
    }
    static bool reads_zero(void*) { return true; }

   private:
    void* Clean(void* p, size_t size) {
      if (p == nullptr) return nullptr;
      if constexpr (ZeroKnowingHeap<Below>) {
        if (this->next_.reads_zero(p)) return p;
      }
      return memset(p, 0, size);
    }
  };
};

}  // namespace strata::layers
