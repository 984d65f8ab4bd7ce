// The hugepages that the page heap has lent to one CPU while its threads and another's wait for the
// page heap's lock too often: a filler of its own for runs shorter than a hugepage, which takes
// that lock only when hugepages come and go. Without contention there are none, so nothing is
// spread thinner than it has to be. Nothing is given back to the kernel here: what rests is
// returned, and the page heap judges it like all the rest. Sits in hugepage; its owner's lock
// guards it and comes before the page heap's, and is dropped while a hugepage is borrowed.
//
// Two threads that replace blocks of 20 KB to 2 MB all the time (large-t2) else spend most of it
// moving the page heap's cache lines between their cores: 2.85 times the time of mimalloc 2 without
// lending, 0.94 with it (16 rounds, taken in turn). No real program gained: NumPy, SciPy, polars,
// Pillow, ONNX Runtime, zstd and xz on two threads take 0.97 to 1.02 of the CPU time without it. A
// cache of whole runs for each CPU is half the code. With 4 MiB a CPU it takes 1.54 times
// mimalloc's time; with 7 MiB, and runs up to half as long again as asked, 1.19, but large-used-t2
// then has 1.24 times the RSS of jemalloc, where it is 1.11 here. Asked for are 1.25 of both.
#pragma once

#include <cstddef>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/huge_filler.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_run.h"

namespace strata {

template <class PageHeap>
class LentPages {
 public:
  LentPages(PageHeap& heap, MetadataArena& arena) : heap_(heap), filler_(arena) {}

  // Shorter than a hugepage, of any alignment that a page has. An empty run when one more hugepage
  // is needed.
  PageRun TryTake(const PageRequest& r) {
    const PageRun run = filler_.TryTake(r, HugeFiller::Broken::kAvoid);
    if (!run.range.empty()) return run;
    HugeTracker* t = spare_.PopFront();
    if (t == nullptr) return {};
    --spare_count_;
    return filler_.Contribute(t, r);
  }

  // Whether there are lists to put hugepages on; to be asked first.
  bool Prepare() { return filler_.Prepare(); }

  // A hugepage that the page heap lent.
  void Add(HugeTracker* t) {
    ++spare_count_;
    spare_.PushFront(t);
  }

  void Give(PageRange r) {
    HugeTracker* t = heap_.LentTracker(r.first);
    if (filler_.Give(t, r) == HugeFiller::Left::kSome) return;
    if (spare_count_ < kLeastSpare + filler_.hugepages() / kUsedASpare) {
      ++spare_count_;
      return spare_.PushFront(t);
    }
    LockHolder hold(heap_.lock());
    heap_.TakeBackHolding(t);
  }

  bool TryGrow(PageRange r, Pages new_length) {
    HugeTracker* t = heap_.LentTracker(r.first);
    return t->OffsetIn(r.first) + new_length.raw() <= kPagesPerHugePage &&
           filler_.TryGrow(t, r, new_length);
  }
  void Shrink(PageRange r, Pages new_length) {
    filler_.Shrink(heap_.LentTracker(r.first), r, new_length);
  }

  // Returns at most n hugepages; false when there are none left.
  bool ReturnSome(size_t n) {
    LockHolder hold(heap_.lock());
    for (; n != 0; --n) {
      HugeTracker* t = spare_.PopFront();
      if (t != nullptr) {
        --spare_count_;
      } else {
        t = filler_.RemoveAny();
      }
      if (t == nullptr) return false;
      heap_.TakeBackHolding(t);
    }
    return true;
  }

  size_t hugepages() const { return filler_.hugepages() + spare_count_; }
  size_t spare() const { return spare_count_; }
  const HugeFiller& filler() const { return filler_; }

 private:
  // Empty ones kept, so that a hugepage that falls empty again and again costs no second lock.
  static constexpr size_t kLeastSpare = 2;
  static constexpr size_t kUsedASpare = 4;

  PageHeap& heap_;
  HugeFiller filler_;
  IntrusiveList<HugeTracker> spare_;
  size_t spare_count_ = 0;
};

}  // namespace strata
