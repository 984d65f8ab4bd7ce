// Inbox: blocks that other threads give back to a heap which one thread uses. They push them on an
// atomic stack; the owner takes the whole stack when the layers above have nothing left, so neither
// side ever waits (after the message queues of snmalloc and the thread-delayed frees of mimalloc).
// All blocks are of one size, as in a FreeList: put it under one, in Bins or below Fixed.
#pragma once

#include <atomic>

#include "strata/layers/heap.h"

namespace strata::layers {

struct Inbox {
  template <Heap Below>
  class On : public Over<Below> {
    static_assert(Below::alignment >= sizeof(void*),
                  "Inbox needs a heap aligned to 8 bytes: a block in it holds a link");

   public:
    // For the owner; Return() is for all.
    static constexpr bool thread_safe = false;
    static constexpr bool one_size = true;
    static constexpr bool blocks_stand_alone = internal::StandAlone<Below>();

    using Over<Below>::Over;
    ~On() {
      GiveBack(opened_);
      GiveBack(arrived_.load(std::memory_order_acquire));
    }

    void* allocate(size_t size) {
      if (opened_ != nullptr) return Open();
      if (arrived_.load(std::memory_order_relaxed) == nullptr) {
        if constexpr (!SizedHeap<Below>) size_ = size;
        return this->next_.allocate(size);
      }
      // acquire: pairs with the release in Return, so that what was written to the block before it
      // came back does not show up after it is handed out.
      opened_ = arrived_.exchange(nullptr, std::memory_order_acquire);
      return Open();
    }

    void deallocate(void* p, size_t size) { this->next_.deallocate(p, size); }
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

    // A block that another thread frees. Only the owner takes, and always all, so that a block
    // which went away and came back in between does no harm.
    void Return(void* p) {
      auto* b = ::new (p) Letter{arrived_.load(std::memory_order_relaxed)};
      while (!arrived_.compare_exchange_weak(b->next, b, std::memory_order_release,
                                             std::memory_order_relaxed)) {
      }
    }

    void forget() {
      Empty();
      Over<Below>::forget();
    }
    void clear()
      requires ClearableHeap<Below>
    {
      Empty();
      this->next_.clear();
    }

   private:
    struct Letter {
      Letter* next;
    };
    void* Open() { return std::exchange(opened_, opened_->next); }
    void Empty() {
      opened_ = nullptr;
      arrived_.store(nullptr, std::memory_order_relaxed);
    }
    void GiveBack(Letter* letters) {
      while (letters != nullptr) {
        void* p = std::exchange(letters, letters->next);
        if constexpr (SizedHeap<Below>) {
          this->next_.deallocate(p);
        } else {
          this->next_.deallocate(p, size_);
        }
      }
    }

    std::atomic<Letter*> arrived_{nullptr};
    Letter* opened_ = nullptr;
    struct None {};
    // Of the blocks here, where the heap below needs it.
    [[no_unique_address]] std::conditional_t<SizedHeap<Below>, None, size_t> size_{};
  };
};

}  // namespace strata::layers
