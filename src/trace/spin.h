// A lock of one word for what the recorder shares between threads for a moment. A forked child
// resets it. Sits in trace.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/thread_annotations.h"

namespace strata::trace {

class STRATA_CAPABILITY("mutex") Spin {
 public:
  void Acquire() STRATA_ACQUIRE() {
    while (!TryAcquire()) sched_yield();
  }
  bool TryAcquire() STRATA_TRY_ACQUIRE(true) {
    return !held_.exchange(true, std::memory_order_acquire);  // sees what the last holder wrote
  }
  void Release() STRATA_RELEASE() { held_.store(false, std::memory_order_release); }
  // In a forked child: whoever held it is not there.
  void Reset() { held_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace strata::trace
