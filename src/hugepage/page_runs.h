// Hands out, takes back and resizes the page heap's runs: which tier a run comes from, and what
// becomes of the ends of large ones. Talks to the kernel only to map more and to have a hugepage
// backed by single pages. Sits in hugepage; the page heap's lock guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/hard_limit.h"
#include "hugepage/huge_filler.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/joined_range.h"
#include "hugepage/page_run.h"
#include "hugepage/page_tiers.h"
#include "hugepage/soft_limit.h"
#include "hugepage/touch_survey.h"
#include "os/page_kernel.h"
#include "os/side_stack.h"

namespace strata {

template <PageKernel Kernel>
class PageRuns {
 public:
  using Tiers = PageTiers<Kernel>;

  PageRuns(HardLimit& hard_limit, const SoftLimit& soft_limit)
      : hard_limit_(hard_limit), soft_limit_(soft_limit) {}

  // An empty run when memory is out, or the hard limit is in the way.
  PageRun Take(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  void Give(Tiers& t, PageRange r) STRATA_REQUIRES(t.lock);
  // In place; false leaves all as it was.
  bool TryGrow(Tiers& t, PageRange r, Pages new_length) STRATA_REQUIRES(t.lock);
  void Shrink(Tiers& t, PageRange r, Pages new_length) STRATA_REQUIRES(t.lock);

  // One more hugepage with a record, in no tier yet, of which `least` pages will be handed out;
  // near a limit, where frames are cold and where use is thin, only those are backed. Null when
  // memory is out.
  HugeTracker* AddTracker(Tiers& t, Pages least) STRATA_REQUIRES(t.lock);

 private:
  static constexpr Pages kSmall{128};                        // 1 MiB: the filler grows for these
  static constexpr Pages kLargest{512 * kPagesPerHugePage};  // above 1 GiB: never in a region
  static constexpr uint32_t kTakenApartForS = 300;
  static constexpr Pages kSlackLimit{8192};  // 64 MiB of tails before a region is opened

  // What TakeHugePages got.
  enum class Fresh : uint8_t {
    kUsed,    // backed, with something in it
    kZero,    // may come as a hugepage when it is touched, so all of it counts as backed
    kSparse,  // zero, and the last hugepage is to be backed by single pages only
  };
  // Where the caller stands; small stacks are spared what is deep.
  enum class OnStack : uint8_t { kCallers, kSide };
  struct Wanted {
    HugePages length, align;
    Pages least;      // what the caller will hand out of them; near a limit no more is backed
    uint64_t now_ns;  // read by the caller: the clock's own frames go on top of as few as possible
  };

  bool MayBack(Tiers& t, Pages n) STRATA_REQUIRES(t.lock) {
    return hard_limit_.Allows(t.Backed() + n);
  }
  static bool FramesAreCold(const Tiers& t) STRATA_REQUIRES(t.lock) {
    return t.rebuilds && t.cold.likely(Seconds(t.CoarseNow()));
  }
  HugeFiller::Broken BrokenFor(Tiers& t, Pages n) STRATA_REQUIRES(t.lock) {
    return MayBack(t, n) ? HugeFiller::Broken::kAllow : HugeFiller::Broken::kAvoid;
  }

  PageRun TakeSmall(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  PageRun TakeEmptied(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  PageRun TakeAwkward(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  PageRun TakeFromRegion(Tiers& t, Pages n) STRATA_REQUIRES(t.lock);
  PageRun TakeWhole(Tiers& t, const PageRequest& r) STRATA_REQUIRES(t.lock);
  HugeRange TakeHugePages(Tiers& t, const Wanted& want, OnStack where, Fresh* kind)
      STRATA_REQUIRES(t.lock);
  HugeRange TakeUnbacked(Tiers& t, HugePages n, HugePages align) STRATA_REQUIRES(t.lock);
  HugeRange TakeJoined(Tiers& t, HugePages n, HugePages align) STRATA_REQUIRES(t.lock);
  bool AddRegion(Tiers& t) STRATA_REQUIRES(t.lock);
  HugeTracker* AddTrackerHere(Tiers& t, Pages least, OnStack where) STRATA_REQUIRES(t.lock);
  HugeTracker* NewTracker(Tiers& t, HugePageId page, Fresh kind) STRATA_REQUIRES(t.lock);
  void BackByPages(Tiers& t, HugeTracker* tracker) STRATA_REQUIRES(t.lock);
  static void SurveySmallHeap(Tiers& t) STRATA_REQUIRES(t.lock);
  static void SurveyAgain(Tiers& t) STRATA_REQUIRES(t.lock);
  void BeginLarge(Tiers& t, HugeRange r) STRATA_REQUIRES(t.lock);
  void DonateTail(Tiers& t, PageRange large, Fresh kind) STRATA_REQUIRES(t.lock);
  void GiveToFiller(Tiers& t, HugeTracker* tracker, PageRange r) STRATA_REQUIRES(t.lock);
  void GiveLarge(Tiers& t, PageRange r) STRATA_REQUIRES(t.lock);
  void GivePieces(Tiers& t, HugeRange r) STRATA_REQUIRES(t.lock);
  void GivePiecesHere(Tiers& t, HugeRange r) STRATA_REQUIRES(t.lock);
  void GiveBroken(Tiers& t, HugePageId p, uint64_t now) STRATA_REQUIRES(t.lock);
  bool GrowOver(Tiers& t, PageRange r, Pages new_length) STRATA_REQUIRES(t.lock);
  void TakeFree(Tiers& t, const JoinedRange& r) STRATA_REQUIRES(t.lock);

  HardLimit& hard_limit_;
  const SoftLimit& soft_limit_;
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
  HugeTracker* tracker = AddTracker(t, r.length);
  if (tracker != nullptr) {
    run = t.filler.Contribute(tracker, r);
    run.begins_hugepage = run.zeroed && !tracker->broken && t.IsAdvised(tracker->page());
    return run;
  }
  // Better among the others than nowhere.
  run = t.filler.TryTakeElsewhere(r, BrokenFor(t, r.length));
  if (run.range.empty() && MayBack(t, r.length)) run = t.filler.TakeFromEmpties(r);
  return run;
}

// Where frames are cold or use is thin: what began as single pages and was emptied lies there until
// the next tick.
template <PageKernel Kernel>
STRATA_NOINLINE PageRun PageRuns<Kernel>::TakeEmptied(Tiers& t, const PageRequest& r) {
  PageRun run;
  OnSideStack([&]() STRATA_NO_TSA {
    if (t.cache.size() == HugePages(0) && MayBack(t, r.length) &&
        (FramesAreCold(t) || t.thin_use.likely()))
      run = t.filler.TakeFromEmpties(r);
  });
  return run;
}

template <PageKernel Kernel>
STRATA_NOINLINE HugeTracker* PageRuns<Kernel>::AddTracker(Tiers& t, Pages least) {
  // One that lies in the cache takes little stack, and no system calls as a side stack does.
  if (t.cache.size() != HugePages(0)) return AddTrackerHere(t, least, OnStack::kCallers);
  HugeTracker* tracker = nullptr;
  OnSideStack([&]() STRATA_NO_TSA { tracker = AddTrackerHere(t, least, OnStack::kSide); });
  return tracker;
}

template <PageKernel Kernel>
HugeTracker* PageRuns<Kernel>::AddTrackerHere(Tiers& t, Pages least, OnStack where) {
  const uint64_t now = t.CoarseNow();
  Fresh kind;
  const HugeRange fresh = TakeHugePages(t, {HugePages(1), HugePages(1), least, now}, where, &kind);
  if (fresh.empty()) return nullptr;
  const bool part = least < kPagesInHugePage;
  if (kind == Fresh::kZero && part && t.MayMark() && (FramesAreCold(t) || t.thin_use.likely()))
    kind = Fresh::kSparse;
  HugeTracker* tracker = NewTracker(t, fresh.first, kind);
  if (tracker != nullptr) {
    ++t.taken_fresh;
    t.map[fresh.first].in_use_since_s = Seconds(now);
    if (kind == Fresh::kSparse && t.thin_use.NoteBegun(fresh.first)) SurveyAgain(t);
    return tracker;
  }
  if (kind == Fresh::kUsed) {
    t.cache.Give(fresh, now);
  } else {
    t.cache.NoteGone(fresh.length, now);
    t.allocator.Give(fresh);
  }
  return nullptr;
}

// A fresh record for a hugepage that joins the filler; null when metadata is out of memory. Whoever
// took the hugepage says since when it is in use.
template <PageKernel Kernel>
HugeTracker* PageRuns<Kernel>::NewTracker(Tiers& t, HugePageId page, Fresh kind) {
  HugeTracker* tracker = t.filler.Prepare() ? t.trackers.New() : nullptr;
  if (tracker == nullptr) return nullptr;
  tracker->Init(page,
                kind == Fresh::kUsed ? HugeTracker::Memory::kTouched : HugeTracker::Memory::kZero);
  HugePageRecord& record = t.map[page];
  record.state = HugePageState::kFiller;
  record.tracker = tracker;
  if (record.no_huge) {  // taken apart in a large run: what it lacks nobody knows
    tracker->broken = tracker->split = true;
    tracker->collapse_after_s = Seconds(t.CoarseNow()) + kTakenApartForS;
  }
  if (kind == Fresh::kSparse) BackByPages(t, tracker);
  return tracker;
}

// Makes a fresh, untouched hugepage one that the kernel backs page by page as they are touched: all
// of it counts as released. One cheap call on a range without pages, under the lock: afterwards
// anyone may take pages of it.
template <PageKernel Kernel>
void PageRuns<Kernel>::BackByPages(Tiers& t, HugeTracker* tracker) {
  tracker->NoteReleased(tracker->FreeBacked());
  tracker->broken = tracker->split = tracker->begun_small = tracker->sparse = true;
  if (t.Mark(t.map[tracker->page()])) t.kernel.AdviseNoHuge({tracker->page(), HugePages(1)});
}

template <PageKernel Kernel>
STRATA_NOINLINE void PageRuns<Kernel>::SurveySmallHeap(Tiers& t) {
  OnSideStack([&]() STRATA_NO_TSA { TouchSurvey<Kernel>(t).LookAtSmallHeap(); });
}

template <PageKernel Kernel>
STRATA_NOINLINE void PageRuns<Kernel>::SurveyAgain(Tiers& t) {
  OnSideStack([&]() STRATA_NO_TSA { TouchSurvey<Kernel>(t).LookAgain(); });
}

template <PageKernel Kernel>
PageRun PageRuns<Kernel>::TakeFromRegion(Tiers& t, Pages n) {
  HugeRegion* best = t.regions.Find(n);
  if (best == nullptr || !MayBack(t, PagesOf(HugeRegion::MostBacked(n)))) return {};
  return t.regions.Take(best, n);
}

template <PageKernel Kernel>
bool PageRuns<Kernel>::AddRegion(Tiers& t) {
  HugeRegion* g = t.regions.New();
  if (g == nullptr) return false;
  const HugeRange r = TakeUnbacked(t, HugeRegion::kSize, HugePages(1));
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

template <PageKernel Kernel>
HugeRange PageRuns<Kernel>::TakeHugePages(Tiers& t, const Wanted& want, OnStack where,
                                          Fresh* kind) {
  const HugePages n = want.length;
  *kind = Fresh::kUsed;
  if (want.align == HugePages(1)) {
    const HugeRange cached = t.cache.TryTake(n, want.now_ns);
    if (!cached.empty()) return cached;
  }
  const bool sparse = want.least < PagesOf(n) && t.MayMark() &&
                      (soft_limit_.near_soft_limit() || !MayBack(t, PagesOf(n)));
  if (!MayBack(t, sparse ? want.least : PagesOf(n))) return {};
  // Its lists first: the address space taken next may be all that the kernel had left to give.
  if (!t.filler.Prepare()) return {};
  if (t.hugepages && t.allocator.EndsSmallHeap(n)) SurveySmallHeap(t);
  const HugeRange fresh =
      where == OnStack::kSide ? t.allocator.Take(n, want.align) : TakeUnbacked(t, n, want.align);
  if (fresh.empty()) return TakeJoined(t, n, want.align);
  t.cache.NoteTaken(n, want.now_ns);
  *kind = sparse ? Fresh::kSparse : Fresh::kZero;
  return fresh;
}

template <PageKernel Kernel>
STRATA_NOINLINE HugeRange PageRuns<Kernel>::TakeUnbacked(Tiers& t, HugePages n, HugePages align) {
  HugeRange fresh;
  OnSideStack([&]() STRATA_NO_TSA { fresh = t.allocator.Take(n, align); });
  return fresh;
}

// When there are no more addresses: cached and unbacked ranges that lie side by side serve
// together, so that none has to be given back first.
template <PageKernel Kernel>
STRATA_NOINLINE HugeRange PageRuns<Kernel>::TakeJoined(Tiers& t, HugePages n, HugePages align) {
  JoinedRange joined;
  OnSideStack([&]() STRATA_NO_TSA { joined = FindJoined(t, n, align); });
  if (!joined.part.empty()) TakeFree(t, joined);
  return joined.part;
}

// Whole hugepages; the tail of the last goes to the filler.
template <PageKernel Kernel>
PageRun PageRuns<Kernel>::TakeWhole(Tiers& t, const PageRequest& r) {
  const HugePages align(std::max<size_t>(r.align.raw() / kPagesPerHugePage, 1));
  Fresh kind;
  const HugeRange whole = TakeHugePages(t, {HugeCeil(r.length), align, r.length, t.CoarseNow()},
                                        OnStack::kCallers, &kind);
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
  HugeTracker* tracker = NewTracker(t, HugePageOf(large.end()), kind);
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
  t.cache.GiveRun(whole, t.CoarseNow());
}

// Those that were taken apart are no hugepages any more, and go back to the kernel at the next
// tick. On a side stack, as records for them may have to be mapped.
template <PageKernel Kernel>
STRATA_NOINLINE void PageRuns<Kernel>::GivePieces(Tiers& t, HugeRange r) {
  HugePageId p = r.first;
  while (p < r.end() && !t.map[p].no_huge) p += HugePages(1);
  if (p == r.end()) return t.cache.Give(r, t.CoarseNow());
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
  if (HugeTracker* tracker = NewTracker(t, p, Fresh::kUsed)) return t.filler.AdoptEmpty(tracker);
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
    return MayBack(t, PagesOf(HugeRegion::MostBacked(new_length - r.length))) &&
           t.regions.TryGrow(record.region, r, new_length);
  }
  const HugePageId last = HugePageOf(r.end() - Pages(1));
  if (HugePageOf(r.first + new_length - Pages(1)) > last) return GrowOver(t, r, new_length);
  // The tail was never donated.
  if (t.map[last].state == HugePageState::kLarge) return MayBack(t, new_length - r.length);
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
  if (!FreeFrom(t, more) || !MayBack(t, PagesOf(more.length))) return false;
  if (tail != nullptr) {
    t.filler.TakeBack(tail);
    t.trackers.Delete(tail);
    t.map[last].state = HugePageState::kLarge;
    t.large += HugePages(1);
  }
  TakeFree(t, {more.first, more});
  BeginLarge(t, more);
  DonateTail(t, {r.first, new_length}, Fresh::kUsed);
  return true;
}

// Exactly the hugepages of r.part, all of them free; r.begin, where the first free range begins
// that it meets.
template <PageKernel Kernel>
void PageRuns<Kernel>::TakeFree(Tiers& t, const JoinedRange& r) {
  const uint64_t now = t.CoarseNow();
  const HugeRange part = r.part;
  for (HugePageId p = r.begin; p < part.end();) {
    const bool cached = t.map[p].state == HugePageState::kCached;
    const HugePageId end = p + (cached ? t.cache.CachedAt(p) : t.allocator.FreeAt(p));
    const HugePageId first = std::max(p, part.first);
    const HugeRange here{first, std::min(end, part.end()) - first};
    if (cached) {
      t.cache.TakePart(p, here, now);
    } else {
      t.allocator.TakePart(p, here);
      t.cache.NoteTaken(here.length, now);
    }
    p = end;
  }
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
