// Whether the heap has taken so much memory into use that was never used before that it counts.
// Then what lies free in caches, of size classes whose spans hold an object or few, has waited for
// one class in vain: it goes down to where any request can use it (GiveUpCostly in
// malloc/slow_path.cpp). Without it a small heap is as large as all that its classes ever held.
// What caches can hold is bounded, so in a large heap it matters less, and there a look for each
// new span, with two system calls, was a tenth of what it takes to fill a table with small records.
// Sits in heaps. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "hugepage/page_run.h"

namespace strata {

class Growth {
 public:
  void Note(const PageRun& run) {
    if (run.zeroed) grown_.fetch_add(run.range.length.raw(), std::memory_order_relaxed);
  }

  bool Grew() const {
    return grown_.load(std::memory_order_relaxed) >= due_.load(std::memory_order_relaxed);
  }
  // Whether it has since the last call that said so. Of several threads one hears it.
  bool Take() {
    const size_t grown = grown_.load(std::memory_order_relaxed);
    size_t due = due_.load(std::memory_order_relaxed);
    return grown >= due &&
           due_.compare_exchange_strong(due, grown + 1 + std::min(grown / kPart, kMost),
                                        std::memory_order_relaxed);
  }

 private:
  // Of all that was taken so far, what comes back after its release included: below 1 MiB each page
  // counts as growth, later so much of it, but no more than half a MiB.
  static constexpr size_t kPart = 128, kMost = 64;

  std::atomic<size_t> grown_{0};  // pages
  std::atomic<size_t> due_{1};
};

}  // namespace strata
