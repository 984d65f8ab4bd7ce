// A lock of one word for what the recorder shares between threads for a moment. A forked child
// resets it. Sits in trace.
#pragma once

#include <atomic>

#include "base/moment.h"
#include "base/thread_annotations.h"

namespace strata::trace {

class STRATA_CAPABILITY("mutex") Spin {
 public:
  void Acquire() STRATA_ACQUIRE() {
    for (unsigned n = 0; !TryAcquire(); ++n) WaitBriefly(n);
  }
  bool TryAcquire() STRATA_TRY_ACQUIRE(true) {
    void* nobody = nullptr;
    // acquire: sees what the last holder wrote
    return holder_.compare_exchange_strong(nobody, __builtin_thread_pointer(),
                                           std::memory_order_acquire, std::memory_order_relaxed);
  }
  void Release() STRATA_RELEASE() { holder_.store(nullptr, std::memory_order_release); }
  // In a signal handler: it interrupted the holder.
  bool HeldByThisThread() const {
    return holder_.load(std::memory_order_relaxed) == __builtin_thread_pointer();
  }
  // In a forked child: whoever held it is not there.
  void Reset() { holder_.store(nullptr, std::memory_order_relaxed); }

 private:
  std::atomic<void*> holder_{nullptr};
};

}  // namespace strata::trace
