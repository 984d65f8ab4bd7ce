// Inbox: blocks that other threads give back to a heap which one thread uses. They push them on an
// atomic stack; the owner takes the whole stack when the layers above have nothing left, so neither
// side ever waits (after the message queues of snmalloc and the thread-delayed frees of mimalloc).
// All blocks are of one size, as in a FreeList: put it under one, in Bins.
#pragma once

#include <atomic>

#include "strata/layers/heap.h"

namespace strata::layers {

struct Inbox {
  template <Heap Below>
  class On : public Through<Below> {
    static_assert(Below::alignment >= sizeof(void*), "an inbox needs room for its link");

   public:
    // For the owner; Return() is for all.
    static constexpr bool thread_safe = false;

    using Through<Below>::Through;

    void* allocate(size_t size) {
      if (opened_ != nullptr) return Open();
      if (arrived_.load(std::memory_order_relaxed) == nullptr) return this->next_.allocate(size);
      // acquire: pairs with the release in Return, so that what was written to the block before it
      // came back does not show up after it is handed out.
      opened_ = arrived_.exchange(nullptr, std::memory_order_acquire);
      return Open();
    }

    // A block that another thread frees. Only the owner takes, and always all, so that a block
    // which went away and came back in between does no harm.
    void Return(void* p) {
      auto* b = ::new (p) Letter{arrived_.load(std::memory_order_relaxed)};
      while (!arrived_.compare_exchange_weak(b->next, b, std::memory_order_release,
                                             std::memory_order_relaxed)) {
      }
    }

    void forget() {
      opened_ = nullptr;
      arrived_.store(nullptr, std::memory_order_relaxed);
      Through<Below>::forget();
    }

   private:
    struct Letter {
      Letter* next;
    };
    void* Open() { return std::exchange(opened_, opened_->next); }

    std::atomic<Letter*> arrived_{nullptr};
    Letter* opened_ = nullptr;
  };
};

}  // namespace strata::layers
