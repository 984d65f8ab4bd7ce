// Where the page heap's whole hugepages come from: the cache, the address space, or where that runs
// out both side by side; within the limits, and near one backed by single pages only. One of which
// parts will be handed out gets a record here and joins the filler. Talks to the kernel only to map
// more and to have a hugepage backed by single pages. Sits in hugepage, below page_runs.h; the page
// heap's lock guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/hard_limit.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/joined_range.h"
#include "hugepage/page_tiers.h"
#include "hugepage/soft_limit.h"
#include "hugepage/touch_survey.h"
#include "os/page_kernel.h"
#include "os/side_stack.h"

namespace strata {

template <PageKernel Kernel>
class HugePageSource {
 public:
  using Tiers = PageTiers<Kernel>;

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

  HugePageSource(HardLimit& hard_limit, const SoftLimit& soft_limit)
      : hard_limit_(hard_limit), soft_limit_(soft_limit) {}

  // Whether the hard limit has room for n pages more.
  bool MayBack(Tiers& t, Pages n) STRATA_REQUIRES(t.lock) {
    return hard_limit_.Allows(t.Backed() + n);
  }
  static bool FramesAreCold(const Tiers& t) STRATA_REQUIRES(t.lock) {
    return t.rebuilds && t.cold.likely(Seconds(t.CoarseNow()));
  }

  // In no state and without records. Empty when memory is out, or a limit is in the way.
  HugeRange TakeHugePages(Tiers& t, const Wanted& want, OnStack where, Fresh* kind)
      STRATA_REQUIRES(t.lock);
  // From the address space alone, whatever the limits.
  HugeRange TakeUnbacked(Tiers& t, HugePages n, HugePages align) STRATA_REQUIRES(t.lock);
  // Exactly the hugepages of r.part, all of them free; r.begin, where the first free range begins
  // that it meets.
  void TakeFree(Tiers& t, const JoinedRange& r) STRATA_REQUIRES(t.lock);

  // One more hugepage with a record, in no tier yet, of which `least` pages will be handed out;
  // near a limit, where frames are cold and where use is thin, only those are backed. Null when
  // memory is out.
  HugeTracker* AddTracker(Tiers& t, Pages least) STRATA_REQUIRES(t.lock);
  // A fresh record for a hugepage that joins the filler; null when metadata is out of memory.
  // Whoever took the hugepage says since when it is in use.
  HugeTracker* NewTracker(Tiers& t, HugePageId page, Fresh kind) STRATA_REQUIRES(t.lock);

 private:
  static constexpr uint32_t kTakenApartForS = 300;

  HugeRange TakeAround(Tiers& t, HugePages n, HugePages align) STRATA_REQUIRES(t.lock);
  HugeRange TakeJoined(Tiers& t, HugePages n, HugePages align) STRATA_REQUIRES(t.lock);
  HugeTracker* AddTrackerHere(Tiers& t, Pages least, OnStack where) STRATA_REQUIRES(t.lock);
  void BackByPages(Tiers& t, HugeTracker* tracker) STRATA_REQUIRES(t.lock);
  static void SurveySmallHeap(Tiers& t) STRATA_REQUIRES(t.lock);
  static void SurveyAgain(Tiers& t) STRATA_REQUIRES(t.lock);

  HardLimit& hard_limit_;
  const SoftLimit& soft_limit_;
};

template <PageKernel Kernel>
HugeRange HugePageSource<Kernel>::TakeHugePages(Tiers& t, const Wanted& want, OnStack where,
                                                Fresh* kind) {
  const HugePages n = want.length;
  *kind = Fresh::kUsed;
  const HugeRange cached = t.cache.TryTake(n, want.now_ns, want.align);
  if (!cached.empty()) return cached;
  const bool sparse = want.least < PagesOf(n) && t.MayMark() &&
                      (soft_limit_.near_soft_limit() || !MayBack(t, PagesOf(n)));
  if (!MayBack(t, sparse ? want.least : PagesOf(n))) return {};
  // Its lists first: the address space taken next may be all that the kernel had left to give.
  if (!t.filler.Prepare()) return {};
  if (n > HugePages(1) && t.cache.size() != HugePages(0)) {
    const HugeRange around = TakeAround(t, n, want.align);
    if (!around.empty()) return around;
  }
  if (t.hugepages && t.allocator.EndsSmallHeap(n)) SurveySmallHeap(t);
  const HugeRange fresh =
      where == OnStack::kSide ? t.allocator.Take(n, want.align) : TakeUnbacked(t, n, want.align);
  if (fresh.empty()) return TakeJoined(t, n, want.align);
  t.cache.NoteTaken(n, want.now_ns);
  t.prompt.NoteFresh(n);
  *kind = sparse ? Fresh::kSparse : Fresh::kZero;
  return fresh;
}

template <PageKernel Kernel>
STRATA_NOINLINE HugeRange HugePageSource<Kernel>::TakeUnbacked(Tiers& t, HugePages n,
                                                               HugePages align) {
  HugeRange fresh;
  OnSideStack([&]() STRATA_NO_TSA { fresh = t.allocator.Take(n, align); });
  return fresh;
}

template <PageKernel Kernel>
STRATA_NOINLINE HugeRange HugePageSource<Kernel>::TakeAround(Tiers& t, HugePages n,
                                                             HugePages align) {
  JoinedRange around;
  OnSideStack([&]() STRATA_NO_TSA { around = FindAround(t, n, align); });
  if (!around.part.empty()) TakeFree(t, around);
  return around.part;
}

// When there are no more addresses: cached and unbacked ranges that lie side by side serve
// together, so that none has to be given back first.
template <PageKernel Kernel>
STRATA_NOINLINE HugeRange HugePageSource<Kernel>::TakeJoined(Tiers& t, HugePages n,
                                                             HugePages align) {
  JoinedRange joined;
  OnSideStack([&]() STRATA_NO_TSA { joined = FindJoined(t, n, align); });
  if (!joined.part.empty()) TakeFree(t, joined);
  return joined.part;
}

template <PageKernel Kernel>
void HugePageSource<Kernel>::TakeFree(Tiers& t, const JoinedRange& r) {
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
      t.prompt.NoteFresh(here.length);
    }
    p = end;
  }
}

template <PageKernel Kernel>
STRATA_NOINLINE HugeTracker* HugePageSource<Kernel>::AddTracker(Tiers& t, Pages least) {
  // One that lies in the cache takes little stack, and no system calls as a side stack does.
  if (t.cache.size() != HugePages(0)) return AddTrackerHere(t, least, OnStack::kCallers);
  HugeTracker* tracker = nullptr;
  OnSideStack([&]() STRATA_NO_TSA { tracker = AddTrackerHere(t, least, OnStack::kSide); });
  return tracker;
}

template <PageKernel Kernel>
HugeTracker* HugePageSource<Kernel>::AddTrackerHere(Tiers& t, Pages least, OnStack where) {
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

template <PageKernel Kernel>
HugeTracker* HugePageSource<Kernel>::NewTracker(Tiers& t, HugePageId page, Fresh kind) {
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
void HugePageSource<Kernel>::BackByPages(Tiers& t, HugeTracker* tracker) {
  tracker->NoteReleased(tracker->FreeBacked());
  tracker->broken = tracker->split = tracker->begun_small = tracker->sparse = true;
  if (t.Mark(t.map[tracker->page()])) t.kernel.AdviseNoHuge({tracker->page(), HugePages(1)});
}

template <PageKernel Kernel>
STRATA_NOINLINE void HugePageSource<Kernel>::SurveySmallHeap(Tiers& t) {
  OnSideStack([&]() STRATA_NO_TSA { TouchSurvey<Kernel>(t).LookAtSmallHeap(); });
}

template <PageKernel Kernel>
STRATA_NOINLINE void HugePageSource<Kernel>::SurveyAgain(Tiers& t) {
  OnSideStack([&]() STRATA_NO_TSA { TouchSurvey<Kernel>(t).LookAgain(); });
}

}  // namespace strata
