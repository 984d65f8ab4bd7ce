// The buffers that events wait in, one a thread that is recorded. They are mapped, hang in a list
// for ever and are used again by later threads, so that whoever ends the recording finds all of
// them. Sits in trace.
#pragma once

#include <sys/mman.h>

#include <atomic>

#include "strata/trace/encode.h"
#include "trace/spin.h"

namespace strata::trace {

struct ThreadBuffer {
  static constexpr size_t kEvents = 2048;

  // Held for an event by the owner, else by who writes the events out.
  Spin hold;
  std::atomic<bool> owned{false};
  ThreadBuffer* next = nullptr;
  size_t count = 0;
  Event events[kEvents];
  uint8_t block[kBlockOverhead + kEvents * kMostEventBytes];
};

class ThreadBuffers {
 public:
  // A buffer for the calling thread; null: no memory.
  ThreadBuffer* Own() {
    for (ThreadBuffer* b = first(); b != nullptr; b = b->next) {
      bool expected = false;
      if (b->owned.compare_exchange_strong(expected, true, std::memory_order_acquire)) return b;
    }
    void* p = mmap(nullptr, sizeof(ThreadBuffer), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    auto* fresh = static_cast<ThreadBuffer*>(p);  // zero bytes are an empty one
    fresh->owned.store(true, std::memory_order_relaxed);
    fresh->next = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(fresh->next, fresh, std::memory_order_release)) {
    }
    return fresh;
  }
  // acquire: pairs with the release above, after the buffer was made.
  ThreadBuffer* first() const { return first_.load(std::memory_order_acquire); }

  // In a forked child: what waits in them is the parent's to write.
  void ForgetAll() {
    for (ThreadBuffer* b = first(); b != nullptr; b = b->next) {
      b->hold.Reset();
      b->count = 0;
      b->owned.store(false, std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<ThreadBuffer*> first_{nullptr};
};

}  // namespace strata::trace
