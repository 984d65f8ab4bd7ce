// The back end: hands out runs of 8 KiB pages so that the memory behind them stays in whole
// hugepages (Temeraire, Hunter et al., OSDI 2021): small runs from the filler, large ones from the
// huge cache with their tails donated to the filler, awkward large ones from regions. What demand
// does not want goes back in Tick, some large runs at their free. This class owns the tiers with
// their one lock and says which part does what; around every call that gives back or rebuilds the
// lock is dropped, with the pages out of reach meanwhile. Above os; the span layer takes from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/break_policy.h"
#include "hugepage/demand_tracker.h"
#include "hugepage/hard_limit.h"
#include "hugepage/page_heap_options.h"
#include "hugepage/page_heap_stats.h"
#include "hugepage/page_mover.h"
#include "hugepage/page_run.h"
#include "hugepage/page_runs.h"
#include "hugepage/page_tiers.h"
#include "hugepage/page_tiers_report.h"
#include "hugepage/placement_group.h"
#include "hugepage/releaser.h"
#include "hugepage/soft_limit.h"
#include "hugepage/upkeep.h"
#include "hugepage/use_account.h"
#include "os/page_kernel.h"
#include "os/side_stack.h"

namespace strata {

template <PageKernel Kernel>
class PageHeap {
 public:
  STRATA_ONCE PageHeap(Kernel& kernel, MetadataArena& arena, const PageHeapOptions& options)
      : tiers_(kernel, arena, {options.hugepages, options.small_heap}, options.filler_groups,
               options.release && options.prompt_release),
        hard_limit_(options.hard_limit_bytes),
        runs_(hard_limit_, soft_limit_),
        upkeep_(hard_limit_, soft_limit_, options),
        use_(soft_limit_, upkeep_) {
    if (!options.release || !options.ticks) {
      tiers_.rebuilds = false;
      tiers_.thin_use.End();
    }
  }
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  // --- Runs

  // An empty run when memory is out. Any length; alignment up to 512 hugepages.
  PageRun Take(const PageRequest& request) STRATA_EXCLUDES(tiers_.lock) {
    const PageRun run = TakeUntouched(request);
    if (STRATA_UNLIKELY(run.begins_hugepage)) TouchFirst(run);
    return run;
  }

  // A run from Take, with the length it has now. Its hugepage knows which group it serves.
  void Give(PageRange r) STRATA_EXCLUDES(tiers_.lock) {
    {
      LockHolder hold(tiers_.lock);
      GiveHolding(r);
    }
    ReleaseDue();
  }

  // The same for a caller that guards records of its own with lock(), so that a large block costs
  // one lock. TakeHolding may drop it for a while.
  PageRun TakeHolding(const PageRequest& request) STRATA_REQUIRES(tiers_.lock);
  void GiveHolding(PageRange r) STRATA_REQUIRES(tiers_.lock) {
    runs_.Give(tiers_, r);
    use_.Given(tiers_, r.length);
  }
  // After GiveHolding or ShrinkHolding, without the lock: a large run may go back at once.
  STRATA_ALWAYS_INLINE void ReleaseDue() STRATA_NO_TSA {
    if (STRATA_UNLIKELY(use_.ReleaseDue())) ReleaseDueNow();
  }

  // In place; false leaves all as it was. Drops the lock for a while when it grows.
  bool TryGrowHolding(PageRange r, Pages new_length) STRATA_REQUIRES(tiers_.lock) {
    if (new_length <= r.length) return new_length == r.length;
    if (!runs_.TryGrow(tiers_, r, new_length)) return false;
    use_.Taken(tiers_, new_length - r.length);
    return true;
  }
  bool TryGrow(PageRange r, Pages new_length) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return TryGrowHolding(r, new_length);
  }

  // The tail goes back; new_length is at least one page.
  void ShrinkHolding(PageRange r, Pages new_length) STRATA_REQUIRES(tiers_.lock) {
    STRATA_DCHECK(new_length > Pages(0) && new_length <= r.length);
    if (new_length == r.length) return;
    runs_.Shrink(tiers_, r, new_length);
    use_.Given(tiers_, r.length - new_length);
  }
  void Shrink(PageRange r, Pages new_length) STRATA_EXCLUDES(tiers_.lock) {
    {
      LockHolder hold(tiers_.lock);
      ShrinkHolding(r, new_length);
    }
    ReleaseDue();
  }

  // Moves the start of one large run into another without copying, as far as it can. The part
  // moved, whose length it returns, is no longer the first run's. Drops the lock meanwhile.
  Pages MoveHolding(PageRange from, PageRange to) STRATA_REQUIRES(tiers_.lock) {
    Pages moved;
    OnSideStack([&]() STRATA_NO_TSA { moved = mover_.Move(tiers_, from, to); });
    use_.Given(tiers_, moved);
    return moved;
  }

  // --- Hugepages lent to single CPUs (lent_pages.h). Only empty ones are lent, so whatever lies in
  // one was put there by whom it is lent to; all of it counts as used meanwhile.

  // To borrower `to`, from 1 on. Null when memory is out.
  HugeTracker* Lend(uint8_t to) STRATA_EXCLUDES(tiers_.lock);
  // With what lies in it: runs that are given back to the page heap from now on.
  void TakeBackHolding(HugeTracker* tracker) STRATA_REQUIRES(tiers_.lock);
  // The record of the lent hugepage that holds p. Needs no lock: the entry was written when the
  // hugepage was lent, and is as long as it is.
  HugeTracker* LentTracker(PageId p) const STRATA_NO_TSA {
    return tiers_.map[HugePageOf(p)].tracker;
  }
  // Whether the hugepage in which a live run lies is lent still. Of a run that was taken from a
  // lent one; for who holds the borrower's lock, without which it can't be returned.
  bool IsLent(PageId p) const STRATA_NO_TSA {
    return tiers_.map[HugePageOf(p)].state == HugePageState::kLent;
  }
  // The borrower of a hugepage, 0 if it is not lent now.
  uint8_t LentTo(HugePageId p) const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    const HugePageRecord* r = tiers_.map.Find(p);
    return r != nullptr && r->state == HugePageState::kLent ? r->tracker->lent_to : 0;
  }

  // --- Giving back

  // Gives back native pages inside runs in use, which their owner knows to be unused and keeps from
  // use (and the runs from being given back) during the call. Sorted. What is given back already,
  // lies outside the filler or in a hugepage that someone else is working on is passed over.
  InUseRelease ReleaseInUse(NativeRange* ranges, size_t n, Program program)
      STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return upkeep_.releaser(tiers_).ReleaseInUse(tiers_, ranges, n, program);
  }

  // Before that, so that it knows what breaking a hugepage frees in all: what a look at the spans
  // finds idle. BeginSurvey forgets what the last one found.
  void BeginSurvey() STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    upkeep_.releaser(tiers_).BeginSurvey();
  }
  void NoteIdle(const NativePages* spans, size_t n) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    upkeep_.releaser(tiers_).NoteIdle(tiers_, spans, n);
  }
  // When it falls, a survey may find more to give back though nothing changed.
  size_t LeastGainNow(Program program) const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return upkeep_.releaser(tiers_).LeastGainNow(program);
  }

  // Pages that will be touched; of those given back so, that ends it. The others don't matter. May
  // look at the soft limit: not with a lock held.
  void NoteReused(const NativePages* spans, size_t n) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    const size_t reused = upkeep_.releaser(tiers_).NoteReused(tiers_, spans, n);
    if (reused != 0) use_.NoteGrowth(tiers_, PagesCeil(reused * kNativePageSize));
  }

  // Bytes of a range, which lies inside a run, that are given back so. Nobody else keeps book of
  // it, because a hugepage that is rebuilt has all of its memory again.
  size_t GoneIn(NativeRange r) const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return strata::GoneIn(tiers_, r);
  }
  // Grows when memory came back so that its owner may want to give back again.
  uint32_t rebuilt_in_use() const STRATA_NO_TSA { return upkeep_.rebuilt_in_use(); }

  // Whatever demand says: for memory limits and for users who ask. Returns the bytes given back.
  size_t ReleaseNow(size_t bytes) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return BytesOf(upkeep_.ReleaseAnyway(tiers_, PagesCeil(bytes)));
  }

  // About once a second, from the background; `calls` since the last tick. The hugepages of a
  // program that computes without calls are spared. Returns the bytes given back.
  size_t Tick(CallRate calls, Program program) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return BytesOf(upkeep_.Tick(tiers_, calls, program));
  }

  // How long a tick may rebuild hugepages: a part of what the program itself computes.
  void SetRebuildTime(RebuildTime time) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    upkeep_.SetRebuildTime(tiers_, time);
  }

  // Whether the last tick left some of what it rebuilds; RebuildPart goes on with it, some fifty
  // times a second for as long as it answers true.
  bool Rebuilds() const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return upkeep_.rebuilds(tiers_);
  }
  bool RebuildPart() STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return upkeep_.RebuildPart(tiers_);
  }

  // Tick is not called any more, so nothing is rebuilt: hugepages begin whole from now on.
  void NoteNoTicks() STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    tiers_.rebuilds = false;
    tiers_.EndThinUse();
  }

  // Once a second: whether PopulateAhead is worth calling until the next.
  bool GrowsFast() STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return upkeep_.GrowsFast(tiers_);
  }

  // Backs hugepages that the program will take next: some fifty times a second for as long as it
  // answers true.
  bool PopulateAhead() STRATA_EXCLUDES(tiers_.lock);

  // In the child of a fork, after the locks work again: takes back what a thread that exists only
  // in the parent was about to release.
  void RecoverInChild() STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    tiers_.moves = 0;
    soft_limit_.Recover(tiers_.Charged());
    upkeep_.Recover(tiers_);
  }

  // --- Limits

  // Requests that would make more than that backed fail; 0: none do. What is backed already stays.
  void SetHardLimit(size_t bytes) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    hard_limit_.Set(bytes);
  }
  size_t hard_limit() const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return hard_limit_.bytes();
  }

  // Asks the kernel how far the soft limit is and gives back free pages if it is near: from the
  // background, and when the limit was changed. Growth looks by itself.
  void CheckSoftLimit() STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    use_.LookAtSoftLimit(tiers_, Pages(0));
  }
  // Bytes that should go back and are not the page heap's to give: they lie in caches and spans.
  // Whoever takes them empties those.
  size_t relief_wanted() const STRATA_NO_TSA { return soft_limit_.relief_wanted(); }
  size_t TakeReliefWanted() STRATA_NO_TSA { return soft_limit_.TakeReliefWanted(); }

  // From then on GrewPastWatch() says when more than that is charged to us; SIZE_MAX: never.
  void WatchGrowth(size_t bytes) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    use_.WatchGrowth(tiers_, bytes);
  }
  // For who asks at each slow call: needs no lock.
  bool GrewPastWatch() const STRATA_NO_TSA { return use_.GrewPastWatch(); }
  // Bytes that the kernel may hold for us, counting every page handed out as touched.
  size_t charged_bytes() const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return BytesOf(tiers_.Charged());
  }

  // --- Reports

  // The same a moment ago, without the lock: for who asks at each slow call.
  Pages used_lately() const STRATA_NO_TSA { return use_.used_lately(); }
  Pages used() const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return tiers_.used;
  }
  Pages free_backed() const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return tiers_.FreeBacked();
  }
  PageHeapStats Stats() const STRATA_EXCLUDES(tiers_.lock);
  HugePageFill FillOf(HugePageId p) const STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return strata::FillOf(tiers_, p);
  }
  // Calls f with the fields of a HugePageView for each mapped hugepage in address order, without
  // the lock.
  template <class F>
  void VisitHugePages(F f) const STRATA_EXCLUDES(tiers_.lock) {
    strata::VisitHugePages(tiers_, f);
  }

  Lock& lock() const STRATA_RETURN_CAPABILITY(tiers_.lock) { return tiers_.lock; }

 private:
  static constexpr int kAttempts = 4;

  PageRun TakeUntouched(const PageRequest& request) STRATA_EXCLUDES(tiers_.lock) {
    LockHolder hold(tiers_.lock);
    return TakeHolding(request);
  }
  void TouchFirst(const PageRun& run) STRATA_EXCLUDES(tiers_.lock);
  void ReleaseDueNow() STRATA_EXCLUDES(tiers_.lock);
  PageRun TakeAfterRelease(const PageRequest& r) STRATA_REQUIRES(tiers_.lock);

  PageTiers<Kernel> tiers_;
  HardLimit hard_limit_ STRATA_GUARDED_BY(tiers_.lock);
  SoftLimit soft_limit_ STRATA_GUARDED_BY(tiers_.lock);
  PageRuns<Kernel> runs_ STRATA_GUARDED_BY(tiers_.lock);
  PageMover<Kernel> mover_ STRATA_GUARDED_BY(tiers_.lock);
  Upkeep<Kernel> upkeep_ STRATA_GUARDED_BY(tiers_.lock);
  UseAccount<Kernel> use_ STRATA_GUARDED_BY(tiers_.lock);
};

template <PageKernel Kernel>
PageRun PageHeap<Kernel>::TakeHolding(const PageRequest& r) {
  if (r.length > PagesOf(tiers_.kernel.window())) return {};  // whatever is released
  STRATA_DCHECK(r.length > Pages(0) && IsPowerOfTwo(r.align.raw()));
  if (STRATA_UNLIKELY(tiers_.Backed() > hard_limit_.most())) {
    upkeep_.ReleaseForRequest(tiers_, tiers_.Backed() - hard_limit_.most());  // it was lowered
  }
  const PageRun run = runs_.Take(tiers_, r);
  if (STRATA_UNLIKELY(run.range.empty())) return TakeAfterRelease(r);
  use_.Taken(tiers_, r.length);
  return run;
}

// Whoever got it would touch it now, and wait as long: so the heap knows at once where frames are
// cold.
template <PageKernel Kernel>
STRATA_NOINLINE void PageHeap<Kernel>::TouchFirst(const PageRun& run) {
  const uint64_t ns = tiers_.kernel.Touch(run.range.first.raw() * kNativePerPage);
  if (ns == 0) return;
  LockHolder hold(tiers_.lock);
  tiers_.cold.NoteTouches(ns, 1, Seconds(tiers_.CoarseNow()));
}

template <PageKernel Kernel>
STRATA_NOINLINE void PageHeap<Kernel>::ReleaseDueNow() {
  LockHolder hold(tiers_.lock);
  use_.EndReleaseDue(tiers_);
  upkeep_.ReleaseDeparting(tiers_);
}

template <PageKernel Kernel>
STRATA_NOINLINE PageRun PageHeap<Kernel>::TakeAfterRelease(const PageRequest& r) {
  PageRun run;
  // What is released may go to another thread, so once is not always enough.
  for (int i = 0; i < kAttempts && run.range.empty() && upkeep_.MakeRoom(tiers_, r.length); ++i)
    run = runs_.Take(tiers_, r);
  if (run.range.empty()) {
    hard_limit_.NoteFailure();
  } else {
    use_.Taken(tiers_, r.length);
  }
  return run;
}

template <PageKernel Kernel>
bool PageHeap<Kernel>::PopulateAhead() {
  constexpr Pages kAhead = PagesOf(PageTiers<Kernel>::kLeftToOthers);
  LockHolder hold(tiers_.lock);
  if (!upkeep_.releases()) return false;
  // Nobody asked for this memory: it leaves enough under the limits for those who ask meanwhile.
  if (tiers_.used >= Populator<Kernel>::kLeastHeap && soft_limit_.Due(tiers_.Charged() + kAhead))
    use_.LookAtSoftLimit(tiers_, kAhead);
  return upkeep_.PopulateAhead(tiers_, kAhead);
}

template <PageKernel Kernel>
HugeTracker* PageHeap<Kernel>::Lend(uint8_t to) {
  LockHolder hold(tiers_.lock);
  HugeTracker* tracker = runs_.TakeTracker(tiers_);
  if (tracker == nullptr) return nullptr;
  tracker->lent_to = to;
  tiers_.map[tracker->page()].state = HugePageState::kLent;
  use_.Taken(tiers_, kPagesInHugePage);
  return tracker;
}

template <PageKernel Kernel>
void PageHeap<Kernel>::TakeBackHolding(HugeTracker* tracker) {
  const Pages empty = kPagesInHugePage - Pages(tracker->used());
  tiers_.map[tracker->page()].state = HugePageState::kFiller;
  if (tracker->empty()) {
    tiers_.Retire(tracker);
  } else {
    tiers_.filler.Adopt(tracker);
  }
  use_.Given(tiers_, empty);
}

template <PageKernel Kernel>
PageHeapStats PageHeap<Kernel>::Stats() const {
  LockHolder hold(tiers_.lock);
  PageHeapStats s = ReportTiers(tiers_);
  s.soft_hits = soft_limit_.hits();
  s.hard_failures = hard_limit_.failures();
  s.demand = BytesOf(upkeep_.last_demand(tiers_));
  s.released_total = upkeep_.releaser(tiers_).released_total();
  s.collapsed_total = upkeep_.collapsed_total(tiers_);
  s.first_touch_ns = tiers_.cold.mean_ns();
  s.cold_frames = tiers_.cold.likely(Seconds(tiers_.CoarseNow()));
  s.thin_use = tiers_.thin_use.likely();
  return s;
}

}  // namespace strata
