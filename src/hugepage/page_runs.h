// Hands out, takes back and resizes the page heap's runs: which tier a run comes from, and what
// becomes of the ends of large ones. Whole hugepages come from huge_page_source.h. Sits in
// hugepage; the page heap's lock guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/hard_limit.h"
#include "hugepage/huge_filler.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/huge_page_source.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/joined_range.h"
#include "hugepage/page_run.h"
#include "hugepage/page_tiers.h"
#include "hugepage/soft_limit.h"
#include "os/page_kernel.h"
#include "os/side_stack.h"

namespace strata {

template <PageKernel Kernel>
class PageRuns {
 public:
  using Tiers = PageTiers<Kernel>;

  PageRuns(HardLimit& hard_limit, const SoftLimit& soft_limit)
      : hard_limit_(hard_limit), source_(hard_limit, soft_limit) {}

  // An empty run when memory is out, or the hard limit is in the way.
  PageRun Take(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  void Give(Tiers& t, PageRange r) STRATA_REQUIRES(t.lock);
  // In place; false leaves all as it was.
  bool TryGrow(Tiers& t, PageRange r, Pages new_length) STRATA_REQUIRES(t.lock);
  void Shrink(Tiers& t, PageRange r, Pages new_length) STRATA_REQUIRES(t.lock);

  // A whole hugepage with a record, in no tier: to lend. Null when memory is out.
  HugeTracker* TakeTracker(Tiers& t) STRATA_REQUIRES(t.lock) {
    hard_limit_.BeginAttempt();
    return source_.AddTracker(t, kPagesInHugePage);
  }

 private:
  using Source = HugePageSource<Kernel>;
  using Fresh = typename Source::Fresh;

  static constexpr Pages kSmall{128};                        // 1 MiB: the filler grows for these
  static constexpr Pages kLargest{512 * kPagesPerHugePage};  // above 1 GiB: never in a region
  static constexpr Pages kSlackLimit{8192};  // 64 MiB of tails before a region is opened

  HugeFiller::Broken BrokenFor(Tiers& t, Pages n) STRATA_REQUIRES(t.lock) {
    return source_.MayBack(t, n) ? HugeFiller::Broken::kAllow : HugeFiller::Broken::kAvoid;
  }

  PageRun TakeSmall(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  PageRun TakeEmptied(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  PageRun TakeAwkward(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  PageRun TakeFromRegion(Tiers& t, Pages n) STRATA_REQUIRES(t.lock);
  PageRun TakeWhole(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  bool AddRegion(Tiers& t) STRATA_REQUIRES(t.lock);
  void BeginLarge(Tiers& t, HugeRange r) STRATA_REQUIRES(t.lock);
  void DonateTail(Tiers& t, PageRange large, Fresh kind) STRATA_REQUIRES(t.lock);
  void GiveToFiller(Tiers& t, HugeTracker* tracker, PageRange r) STRATA_REQUIRES(t.lock);
  void GiveLarge(Tiers& t, PageRange r) STRATA_REQUIRES(t.lock);
  void GiveWhole(Tiers& t, HugeRange r, uint64_t now) STRATA_REQUIRES(t.lock);
  void GivePieces(Tiers& t, HugeRange r) STRATA_REQUIRES(t.lock);
  void GivePiecesHere(Tiers& t, HugeRange r) STRATA_REQUIRES(t.lock);
  void GiveBroken(Tiers& t, HugePageId p, uint64_t now) STRATA_REQUIRES(t.lock);
  bool GrowOver(Tiers& t, PageRange r, Pages new_length) STRATA_REQUIRES(t.lock);

  HardLimit& hard_limit_;
  Source source_;
};

template <PageKernel Kernel>
PageRun PageRuns<Kernel>::Take(Tiers& t, const PageRequest& r) {
  hard_limit_.BeginAttempt();
  const Pages n = r.length;
  if (n <= kSmall && n + r.align <= kPagesInHugePage + Pages(1)) return TakeSmall(t, r);
  if (r.align > Pages(1) || n > kLargest || n % kPagesInHugePage == Pages(0))
    return TakeWhole(t, r);
  return TakeAwkward(t, r);
}

// One that would waste much of its last hugepage. Out of line: small runs are spared its stack.
template <PageKernel Kernel>
STRATA_NOINLINE PageRun PageRuns<Kernel>::TakeAwkward(Tiers& t, const PageRequest& r) {
  const Pages n = r.length;
  PageRun run;
  if (n < kPagesInHugePage) run = t.filler.TryTake(r, BrokenFor(t, n));
  if (run.range.empty()) run = TakeFromRegion(t, n);
  if (!run.range.empty()) return run;
  const Pages slack = t.filler.slack();
  if (slack >= kSlackLimit && slack >= t.filler.used() && AddRegion(t)) run = TakeFromRegion(t, n);
  return run.range.empty() ? TakeWhole(t, r) : run;
}

template <PageKernel Kernel>
PageRun PageRuns<Kernel>::TakeSmall(Tiers& t, const PageRequest& r) {
  PageRun run = t.filler.TryTake(r, BrokenFor(t, r.length));
  if (STRATA_LIKELY(!run.range.empty())) return run;
  if (t.filler.has_empties()) {
    run = TakeEmptied(t, r);
    if (!run.range.empty()) return run;
  }
  HugeTracker* tracker = source_.AddTracker(t, r.length);
  if (tracker != nullptr) {
    run = t.filler.Contribute(tracker, r);
    run.begins_hugepage = run.zeroed && !tracker->broken && t.IsAdvised(tracker->page());
    return run;
  }
  // Better among the others than nowhere.
  run = t.filler.TryTakeElsewhere(r, BrokenFor(t, r.length));
  if (run.range.empty() && source_.MayBack(t, r.length)) run = t.filler.TakeFromEmpties(r);
  return run;
}

// Where frames are cold or use is thin: what began as single pages and was emptied lies there until
// the next tick.
template <PageKernel Kernel>
STRATA_NOINLINE PageRun PageRuns<Kernel>::TakeEmptied(Tiers& t, const PageRequest& r) {
  PageRun run;
  OnSideStack([&]() STRATA_NO_TSA {
    if (t.cache.size() == HugePages(0) && source_.MayBack(t, r.length) &&
        (Source::FramesAreCold(t) || t.thin_use.likely()))
      run = t.filler.TakeFromEmpties(r);
  });
  return run;
}

template <PageKernel Kernel>
PageRun PageRuns<Kernel>::TakeFromRegion(Tiers& t, Pages n) {
  HugeRegion* best = t.regions.Find(n);
  if (best == nullptr || !source_.MayBack(t, PagesOf(HugeRegion::MostBacked(n)))) return {};
  return t.regions.Take(best, n);
}

template <PageKernel Kernel>
bool PageRuns<Kernel>::AddRegion(Tiers& t) {
  HugeRegion* g = t.regions.New();
  if (g == nullptr) return false;
  const HugeRange r = source_.TakeUnbacked(t, HugeRegion::kSize, HugePages(1));
  if (r.empty()) {
    t.regions.Delete(g);
    return false;
  }
  t.regions.Add(g, r.first);
  t.map.SetState(r, HugePageState::kRegion);
  const uint32_t now_s = Seconds(t.CoarseNow());
  for (HugePageId p = r.first; p < r.end(); p += HugePages(1)) {
    t.map[p].region = g;
    t.map[p].in_use_since_s = now_s;
  }
  return true;
}

// Whole hugepages; the tail of the last goes to the filler.
template <PageKernel Kernel>
PageRun PageRuns<Kernel>::TakeWhole(Tiers& t, const PageRequest& r) {
  const HugePages align(std::max<size_t>(r.align.raw() / kPagesPerHugePage, 1));
  Fresh kind;
  const HugeRange whole = source_.TakeHugePages(
      t, {HugeCeil(r.length), align, r.length, t.CoarseNow()}, Source::OnStack::kCallers, &kind);
  if (whole.empty()) return {};
  BeginLarge(t, whole);
  const PageRange run{FirstPage(whole.first), r.length};
  DonateTail(t, run, kind);
  return {run, kind != Fresh::kUsed};
}

template <PageKernel Kernel>
void PageRuns<Kernel>::BeginLarge(Tiers& t, HugeRange r) {
  t.map.SetState(r, HugePageState::kLarge);
  t.large += r.length;
  const uint32_t now_s = Seconds(t.CoarseNow());
  for (HugePageId p = r.first; p < r.end(); p += HugePages(1)) {
    t.map[p].in_use_since_s = now_s;
    t.map[p].look_after_s = 0;
  }
}

// Hands what a large run leaves of its last hugepage to the filler; all of it must be in state
// kLarge. Without metadata the tail stays the run's, unused.
template <PageKernel Kernel>
void PageRuns<Kernel>::DonateTail(Tiers& t, PageRange large, Fresh kind) {
  const Pages head = large.length % kPagesInHugePage;
  if (head == Pages(0)) return;
  HugeTracker* tracker = source_.NewTracker(t, HugePageOf(large.end()), kind);
  if (tracker == nullptr) return;
  t.large -= HugePages(1);
  t.filler.ContributeTail(tracker, head);
  if (tracker->page() == t.block_rebuilt) t.filler.Detach(tracker);
}

template <PageKernel Kernel>
void PageRuns<Kernel>::Give(Tiers& t, PageRange r) {
  HugePageRecord& record = t.RecordOf(r.first);
  switch (record.state) {
    case HugePageState::kFiller:
      return GiveToFiller(t, record.tracker, r);
    case HugePageState::kLarge:
      return GiveLarge(t, r);
    case HugePageState::kRegion:
      return t.regions.Give(record.region, r);
    default:
      STRATA_CHECK(!"a run that was never taken");
  }
}

template <PageKernel Kernel>
void PageRuns<Kernel>::GiveToFiller(Tiers& t, HugeTracker* tracker, PageRange r) {
  if (t.filler.Give(tracker, r) == HugeFiller::Left::kNothing) t.Retire(tracker);
}

template <PageKernel Kernel>
void PageRuns<Kernel>::GiveLarge(Tiers& t, PageRange r) {
  HugeRange whole{HugePageOf(r.first), HugeCeil(r.length)};
  const HugePageId last = whole.end() - HugePages(1);
  if (t.map[last].state == HugePageState::kFiller) {
    const PageId tail = FirstPage(last);
    GiveToFiller(t, t.map[last].tracker, {tail, r.end() - tail});
    whole.length -= HugePages(1);
  }
  t.large -= whole.length;
  if (STRATA_UNLIKELY(t.marked != 0)) return GivePieces(t, whole);
  GiveWhole(t, whole, t.CoarseNow());
}

// Near the hard limit all stays where whoever asks next finds it.
template <PageKernel Kernel>
void PageRuns<Kernel>::GiveWhole(Tiers& t, HugeRange r, uint64_t now) {
  if (!t.departing.empty() || !hard_limit_.Allows(t.Backed() + PagesOf(r.length)) ||
      !t.prompt.NoteFreed(r.length))
    return t.cache.Give(r, now);
  t.cache.NoteGone(r.length, now);
  t.Depart(r);
  t.departing = r;
}

// Those that were taken apart are no hugepages any more, and go back to the kernel at the next
// tick. On a side stack, as records for them may have to be mapped.
template <PageKernel Kernel>
STRATA_NOINLINE void PageRuns<Kernel>::GivePieces(Tiers& t, HugeRange r) {
  HugePageId p = r.first;
  while (p < r.end() && !t.map[p].no_huge) p += HugePages(1);
  if (p == r.end()) return GiveWhole(t, r, t.CoarseNow());
  OnSideStack([&]() STRATA_NO_TSA { GivePiecesHere(t, r); });
}

template <PageKernel Kernel>
void PageRuns<Kernel>::GivePiecesHere(Tiers& t, HugeRange r) {
  const uint64_t now = t.CoarseNow();
  for (HugePageId p = r.first; p < r.end();) {
    HugePageId end = p;
    while (end < r.end() && !t.map[end].no_huge) end += HugePages(1);
    if (end != p) t.cache.Give({p, end - p}, now);
    for (; end < r.end() && t.map[end].no_huge; end += HugePages(1)) GiveBroken(t, end, now);
    p = end;
  }
}

template <PageKernel Kernel>
void PageRuns<Kernel>::GiveBroken(Tiers& t, HugePageId p, uint64_t now) {
  if (p == t.block_rebuilt) {
    t.Unmark(t.map[p]);
    return t.Depart({p, HugePages(1)});
  }
  if (HugeTracker* tracker = source_.NewTracker(t, p, Fresh::kUsed))
    return t.filler.AdoptEmpty(tracker);
  // Without metadata: the kernel makes one of it, sooner or later.
  t.kernel.AdviseHuge({p, HugePages(1)});
  t.Unmark(t.map[p]);
  t.cache.Give({p, HugePages(1)}, now);
}

template <PageKernel Kernel>
bool PageRuns<Kernel>::TryGrow(Tiers& t, PageRange r, Pages new_length) {
  hard_limit_.BeginAttempt();
  const HugePageRecord& record = t.RecordOf(r.first);
  if (record.state == HugePageState::kRegion) {
    return source_.MayBack(t, PagesOf(HugeRegion::MostBacked(new_length - r.length))) &&
           t.regions.TryGrow(record.region, r, new_length);
  }
  const HugePageId last = HugePageOf(r.end() - Pages(1));
  if (HugePageOf(r.first + new_length - Pages(1)) > last) return GrowOver(t, r, new_length);
  // The tail was never donated.
  if (t.map[last].state == HugePageState::kLarge) return source_.MayBack(t, new_length - r.length);
  HugeTracker* tracker = t.map[last].tracker;
  const PageId from = std::max(r.first, FirstPage(last));
  return BrokenFor(t, new_length - r.length) == HugeFiller::Broken::kAllow &&
         t.filler.TryGrow(tracker, {from, r.end() - from}, r.first + new_length - from);
}

// Over the end of the run's last hugepage, into free ones behind it.
template <PageKernel Kernel>
bool PageRuns<Kernel>::GrowOver(Tiers& t, PageRange r, Pages new_length) {
  const HugePageId first = HugePageOf(r.first), last = HugePageOf(r.end() - Pages(1));
  if (FirstPage(first) != r.first) return false;  // a small run in the middle of its hugepage
  HugeTracker* tail = t.InFiller(last);
  if (tail != nullptr) {
    const bool alone = tail->used() == tail->donated_head && tail->donated_head != 0;
    if (!alone || tail->broken || tail->detached) return false;
  }
  const HugeRange more{last + HugePages(1), HugeCeil(new_length) - (last + HugePages(1) - first)};
  if (!FreeFrom(t, more) || !source_.MayBack(t, PagesOf(more.length))) return false;
  if (tail != nullptr) {
    t.filler.TakeBack(tail);
    t.trackers.Delete(tail);
    t.map[last].state = HugePageState::kLarge;
    t.large += HugePages(1);
  }
  source_.TakeFree(t, {more.first, more});
  BeginLarge(t, more);
  DonateTail(t, {r.first, new_length}, Fresh::kUsed);
  return true;
}

template <PageKernel Kernel>
void PageRuns<Kernel>::Shrink(Tiers& t, PageRange r, Pages new_length) {
  const HugePageRecord& record = t.RecordOf(r.first);
  if (record.state == HugePageState::kRegion) return t.regions.Shrink(record.region, r, new_length);
  const PageRange kept{r.first, new_length};
  const HugePageId last = HugePageOf(r.end() - Pages(1)),
                   new_last = HugePageOf(kept.end() - Pages(1));
  if (last == new_last) {
    if (t.map[last].state == HugePageState::kFiller) {
      const PageId from = std::max(r.first, FirstPage(last));
      t.filler.Shrink(t.map[last].tracker, {from, r.end() - from}, kept.end() - from);
    } else {
      DonateTail(t, kept, Fresh::kUsed);
    }
    return;
  }
  const PageId cut = FirstPage(new_last + HugePages(1));
  if (HugeTracker* tracker = t.InFiller(HugePageOf(cut))) {
    GiveToFiller(t, tracker, {cut, r.end() - cut});
  } else {
    GiveLarge(t, {cut, r.end() - cut});
  }
  DonateTail(t, kept, Fresh::kUsed);
}

}  // namespace strata
