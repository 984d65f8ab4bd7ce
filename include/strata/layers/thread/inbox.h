// Inbox: blocks that other threads give back to a heap which one thread uses. They push them on an
// atomic stack; the owner takes the whole stack when the layers above have nothing left, so neither
// side ever waits (after the message queues of snmalloc and the thread-delayed frees of mimalloc).
// All blocks are of one size, as in a FreeList: put it under one, in Bins or below Fixed.
#pragma once

#include <atomic>

#include "strata/layers/detail/by_call.h"
#include "strata/layers/heap.h"

namespace strata::layers {

struct Inbox {
  class Alone {
   public:
    template <class Next>
    void* allocate(Next& next, size_t size) {
      if (opened_ != nullptr) return Open();
      if (arrived_.load(std::memory_order_relaxed) == nullptr) return next.allocate(size);
      // acquire: pairs with the release in give_back, so that what was written to the block before
      // it came back does not show up after it is handed out.
      opened_ = arrived_.exchange(nullptr, std::memory_order_acquire);
      return Open();
    }
    template <class Next>
    void deallocate(Next& next, void* p, size_t size) {
      internal::GiveDown(next, p, size);
    }
    // A block that another thread frees. Only the owner takes, and always all, so that a block
    // which went away and came back in between does no harm.
    void give_back(void* p) {
      auto* b = ::new (p) Letter{arrived_.load(std::memory_order_relaxed)};
      while (!arrived_.compare_exchange_weak(b->next, b, std::memory_order_release,
                                             std::memory_order_relaxed)) {
      }
    }
    template <class Next>
    void drain(Next& next, size_t size) {
      while (opened_ != nullptr) internal::GiveDown(next, Open(), size);
      opened_ = arrived_.exchange(nullptr, std::memory_order_acquire);
      while (opened_ != nullptr) internal::GiveDown(next, Open(), size);
    }
    void forget() {
      opened_ = nullptr;
      arrived_.store(nullptr, std::memory_order_relaxed);
    }

   private:
    struct Letter {
      Letter* next;
    };
    void* Open() { return std::exchange(opened_, opened_->next); }

    std::atomic<Letter*> arrived_{nullptr};
    Letter* opened_ = nullptr;
  };

  template <Heap Below>
  class On : public internal::OnAlone<Alone, Below> {
    static_assert(Below::alignment >= sizeof(void*),
                  "Inbox needs a heap aligned to 8 bytes: a block in it holds a link");
    using Base = internal::OnAlone<Alone, Below>;

   public:
    using Base::Base;

    using Base::deallocate;
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      this->next_.deallocate(p);
    }
    size_t size_of(void* p)
      requires SizedHeap<Below>
    {
      return this->next_.size_of(p);
    }
    // For all threads; the rest is the owner's.
    void give_back(void* p) { this->alone().give_back(p); }
  };
};

}  // namespace strata::layers
