// Log: tells a function of each call, in order: what, where, how much. The function may write a
// line, count, or keep the last thousand; it must not allocate from this heap.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

enum class HeapCall : uint8_t { kAllocate, kDeallocate, kClear };

// size is 0 where the caller did not say; p is null for a request that failed, and for clear.
using LogFunction = void (*)(void* context, HeapCall call, const void* p, size_t size);

struct Log {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    using Through<Below>::Through;

    void set_log(LogFunction log, void* context = nullptr) {
      log_ = log;
      context_ = context;
    }

    void* allocate(size_t size) {
      void* p = this->next_.allocate(size);
      Tell(HeapCall::kAllocate, p, size);
      return p;
    }
    void deallocate(void* p, size_t size) {
      Tell(HeapCall::kDeallocate, p, size);
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      Tell(HeapCall::kDeallocate, p, 0);
      this->next_.deallocate(p);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      Tell(HeapCall::kClear, nullptr, 0);
      this->next_.clear();
    }

   private:
    void Tell(HeapCall call, const void* p, size_t size) {
      if (log_ != nullptr) log_(context_, call, p, size);
    }

    LogFunction log_ = nullptr;
    void* context_ = nullptr;
  };
};

}  // namespace strata::layers
