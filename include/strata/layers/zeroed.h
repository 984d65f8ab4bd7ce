// Zeroed: every block reads as zero when it is handed out.
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
      void* p = this->next_.allocate(size);
      return p == nullptr ? nullptr : memset(p, 0, size);
    }
  };
};

}  // namespace strata::layers
