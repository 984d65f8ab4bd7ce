// A collapser on hand-filled tiers, for its tests.
#pragma once

#include <gtest/gtest.h>

#include "hugepage/collapser.h"
#include "test_tiers.h"

namespace strata::test {

inline constexpr Pages kNoLimit{SIZE_MAX >> kPageShift};
inline constexpr size_t kMostMissing = 16;  // pages
inline constexpr RebuildTime kTickTime{200'000'000, 400'000'000};

struct CollapserTest : TestTiers {
  explicit CollapserTest(HugePages small_heap = HugePages(0)) : TestTiers(small_heap) {
    LockHolder hold(t.lock);
    t.used = Pages(8192);  // of a heap large enough, most of which is elsewhere
  }

  // A hugepage of which all is in use but some free pages that went back.
  HugeTracker* AddBroken(size_t missing) STRATA_REQUIRES(t.lock) {
    HugeTracker* tracker = AddToFiller(kPagesPerHugePage - missing);
    const NativeRange range{OffsetOf(tracker->page()) + BytesOf(Pages(tracker->used())),
                            BytesOf(Pages(missing))};
    Break(tracker, range);
    t.filler.Change(tracker, [&] { tracker->NoteReleased(tracker->FreeBacked()); });
    return tracker;
  }
  // One full of runs, of which some native pages went back.
  HugeTracker* AddGone(size_t missing) STRATA_REQUIRES(t.lock) {
    HugeTracker* tracker = AddToFiller(kPagesPerHugePage);
    Break(tracker, {OffsetOf(tracker->page()), missing * kNativePageSize});
    t.filler.Change(tracker, [&] { tracker->NoteGone(0, missing); });
    return tracker;
  }
  void Break(HugeTracker* tracker, NativeRange range) STRATA_REQUIRES(t.lock) {
    t.filler.Change(tracker, [&] { tracker->broken = true; });
    if (t.Mark(t.map[tracker->page()])) kernel.AdviseNoHuge({tracker->page(), HugePages(1)});
    ASSERT_TRUE(kernel.Release(&range, 1));
    kernel.SplitHugePage(tracker->page(),
                         {OffsetOf(tracker->page()) + kHugePageSize / 2, kNativePageSize});
  }
  // One tick's part; each hugepage is looked at once a second.
  void Rebuild(Pages wanted = kNoLimit, Pages hard_limit = kNoLimit, Pages growth = Pages(0))
      STRATA_REQUIRES(t.lock) {
    kernel.Advance(1000);
    collapser.BeginTick();
    RebuildBudget budget{wanted, hard_limit, growth, kTickTime};
    collapser.Rebuild(t, budget);
  }

  Collapser<FakeKernel> collapser;
};

}  // namespace strata::test
