// FailNth: says no to the requests one tells it to, so that the way out of memory can be tested.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

struct FailNth {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;

    using Through<Below>::Through;

    // The n-th request from now fails (1: the next), and if `every` is set each n-th after it.
    // 0: none.
    void fail_nth(size_t n, bool every = false) {
      left_ = n;
      every_ = every ? n : 0;
    }
    void* allocate(size_t size) {
      if (left_ != 0 && --left_ == 0) {
        left_ = every_;
        ++failed_;
        return nullptr;
      }
      return this->next_.allocate(size);
    }
    size_t failed() const { return failed_; }

   private:
    size_t left_ = 0;
    size_t every_ = 0;
    size_t failed_ = 0;
  };
};

}  // namespace strata::layers
