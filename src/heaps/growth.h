// Whether the heap has taken memory into use that was never used before. Then what lies free in
// caches, of size classes whose spans hold an object or few, has waited for one class in vain: it
// goes down to where any request can use it (GiveUpCostly in malloc/slow_path.cpp). Without it a
// small heap is as large as all that its classes ever held. Sits in heaps. Thread-safe.
#pragma once

#include <atomic>

#include "hugepage/page_run.h"

namespace strata {

class Growth {
 public:
  void Note(const PageRun& run) {
    if (run.zeroed && !grew_.load(std::memory_order_relaxed))
      grew_.store(true, std::memory_order_relaxed);
  }

  bool Grew() const { return grew_.load(std::memory_order_relaxed); }
  // Whether it has since the last call that said so.
  bool Take() { return grew_.exchange(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> grew_{false};
};

}  // namespace strata
