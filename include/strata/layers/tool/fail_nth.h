// FailNth: says no to the requests one tells it to, so that the way out of memory can be tested. A
// resize or a remap, which may be refused at any time, goes through and does not count.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

struct FailNth {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;

    using Through<Below>::Through;

    // The n-th request from now fails (1: the next; 0: none), or each n-th.
    void fail_nth(size_t n) {
      left_ = n;
      every_ = 0;
    }
    void fail_each(size_t n) { left_ = every_ = n; }
    void* allocate(size_t size) { return Fails() ? nullptr : this->next_.allocate(size); }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return Fails() ? nullptr : this->next_.allocate(size, align);
    }
    size_t failed() const { return failed_; }

   private:
    bool Fails() {
      if (left_ == 0 || --left_ != 0) return false;
      left_ = every_;
      ++failed_;
      return true;
    }

    size_t left_ = 0;
    size_t every_ = 0;
    size_t failed_ = 0;
  };
};

}  // namespace strata::layers
