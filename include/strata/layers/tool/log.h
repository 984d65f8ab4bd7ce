// Log: tells a function of each call, in order: what, where, how much. The function may write a
// line, count, or keep the last thousand; it must not allocate from this heap.
// A block that moves is reported as the old one's end and the new one's begin.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

enum class HeapCall : uint8_t { kAllocate, kDeallocate, kClear, kResize };

// size is 0 where the caller did not say; p is null for a request that failed, a resize or remap
// that was refused, and for clear.
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
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      void* p = this->next_.allocate(size, align);
      Tell(HeapCall::kAllocate, p, size);
      return p;
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      const bool done = this->next_.resize(p, size);
      Tell(HeapCall::kResize, done ? p : nullptr, size);
      return done;
    }
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      void* to = this->next_.remap(p, size);
      if (to == nullptr) {
        Tell(HeapCall::kResize, nullptr, size);
      } else {
        Tell(HeapCall::kDeallocate, p, 0);
        Tell(HeapCall::kAllocate, to, size);
      }
      return to;
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
    void forget() {
      Tell(HeapCall::kClear, nullptr, 0);
      Through<Below>::forget();
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
