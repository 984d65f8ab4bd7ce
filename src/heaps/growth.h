// Whether the heap has taken so much memory into use that it counts. Then what lies free in caches
// has waited in vain, and goes down to where any request can use it (GiveUp in
// malloc/slow_path.cpp). Without it a heap is as large as all that its classes ever held.
//
// In a small heap the pages of each span count, whether they are fresh or not: caches that are
// emptied only once the heap has grown are full again at the next growth. What caches can hold is
// bounded, so in a large heap it matters less: only fresh memory counts, and only objects of size
// classes whose spans hold one or few go down. There a look for each new span, with two system
// calls, was a tenth of what it takes to fill a table with small records.
// Sits in heaps. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/units.h"
#include "hugepage/page_run.h"
#include "span/size_classes.h"

namespace strata {

class Growth {
 public:
  void Note(const PageRun& run) {
    if (!run.zeroed) return;
    Add(fresh_, run.range.length.raw());
    Add(counted_, run.range.length.raw());
  }
  // Of a span; `used`: all pages in use. Where more than a fifth of what was taken lies free, the
  // next spans take that. A costly one for one that came back since the last look doesn't count: in
  // a program that uses few large objects over and over, each look would send them down, and they
  // would be taken anew.
  void NoteSpan(const PageRun& run, SizeClass c, Pages used) {
    if (run.zeroed) return Note(run);
    const size_t fresh = fresh_.load(std::memory_order_relaxed);
    if (!IsSmall() || TakesBack(c) || fresh > used.raw() + used.raw() / 4) return;
    Add(counted_, run.range.length.raw());
  }
  void NoteSpanGiven(SizeClass c) {
    if (IsCostly(c) && IsSmall()) Add(given_[Raw(c)], 1);
  }

  // By all that was taken so far, what comes back after its release included.
  bool IsSmall() const { return fresh_.load(std::memory_order_relaxed) < kSmall; }
  bool Grew() const {
    return counted_.load(std::memory_order_relaxed) >= due_.load(std::memory_order_relaxed);
  }
  // Whether it has since the last call that said so. Of several threads one hears it.
  bool Take() {
    const size_t counted = counted_.load(std::memory_order_relaxed);
    size_t due = due_.load(std::memory_order_relaxed);
    if (counted < due ||
        !due_.compare_exchange_strong(due, counted + Step(), std::memory_order_relaxed))
      return false;
    for (auto& given : given_) given.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr size_t kSmall = (32 << 20) / kPageSize;

  static void Add(std::atomic<size_t>& count, size_t pages) {
    count.fetch_add(pages, std::memory_order_relaxed);
  }
  // Of two at once, one may go uncounted.
  bool TakesBack(SizeClass c) {
    std::atomic<size_t>& given = given_[Raw(c)];
    const size_t n = given.load(std::memory_order_relaxed);
    if (n != 0) given.store(n - 1, std::memory_order_relaxed);
    return n != 0;
  }
  // In a small heap a part of it, but no single pages; else half a MiB.
  size_t Step() const {
    return IsSmall() ? std::max<size_t>(8, fresh_.load(std::memory_order_relaxed) / 24) : 64;
  }

  std::atomic<size_t> fresh_{0};  // pages, as all here
  std::atomic<size_t> counted_{0};
  std::atomic<size_t> due_{1};
  std::atomic<size_t> given_[kMaxClasses] = {};  // costly spans since the last look
};

}  // namespace strata
