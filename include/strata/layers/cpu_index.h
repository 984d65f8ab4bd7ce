// The number of the CPU that the caller runs on: whose heap is the caller's, for heaps that are one
// for each CPU (per_thread.h, hoard.h). A thread may move at any moment, so such heaps lock.
#pragma once

#include <sched.h>

#include <cstddef>

namespace strata::layers {

struct CpuIndex {
  static constexpr bool exclusive = false;
  static size_t index() {
    const int cpu = sched_getcpu();
    return cpu < 0 ? 0 : static_cast<size_t>(cpu);
  }
};

}  // namespace strata::layers
