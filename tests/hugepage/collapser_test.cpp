// Collapser on hand-filled tiers: what is rebuilt, in how many calls, within which bounds, and the
// accounts of it.
#include "hugepage/collapser.h"

#include <gtest/gtest.h>

#include <vector>

#include "test_tiers.h"

namespace strata {
namespace {

constexpr Pages kNoLimit{SIZE_MAX >> kPageShift};
constexpr size_t kMostMissing = 16;  // pages
constexpr uint64_t kFifthOfASecondNs = 200'000'000;

struct CollapserTest : test::TestTiers {
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
    collapser.Rebuild(t, {wanted, hard_limit, growth, kFifthOfASecondNs});
  }

  Collapser<FakeKernel> collapser;
};

TEST_F(CollapserTest, RebuildsWhatLacksASixteenthAtMost) {
  LockHolder hold(t.lock);
  const HugeTracker* little = AddBroken(kMostMissing);
  const HugeTracker* much = AddBroken(kMostMissing + 1);
  const HugeTracker* gone = AddGone(kMostMissing * kNativePerPage);
  const HugeTracker* more_gone = AddGone(kMostMissing * kNativePerPage + 1);
  Rebuild();
  EXPECT_TRUE(kernel.whole(little->page()) && kernel.whole(gone->page()));
  EXPECT_FALSE(kernel.whole(much->page()) || kernel.whole(more_gone->page()));
  EXPECT_FALSE(little->broken || little->detached || gone->detached);
  EXPECT_EQ(little->released() + gone->gone(), 0u);
  EXPECT_EQ(collapser.collapsed_total(), 2u);
}

TEST_F(CollapserTest, OwnersHearOnlyOfMemoryThatCameBackInsideRuns) {
  LockHolder hold(t.lock);
  AddBroken(4);
  Rebuild();
  EXPECT_EQ(collapser.rebuilt_in_use(), 0u);
  AddGone(4);
  for (int i = 0; i < 2; ++i) Rebuild();  // the search goes on where the last one stopped
  EXPECT_EQ(collapser.rebuilt_in_use(), 1u);
}

TEST_F(CollapserTest, TakesTheMarkAndTheAdviceBack) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddBroken(4);
  ASSERT_EQ(t.marked, 1u);
  Rebuild();
  EXPECT_EQ(t.marked, 0u);
  EXPECT_FALSE(t.map[tracker->page()].no_huge);
  EXPECT_EQ(kernel.advice(tracker->page()), FakeKernel::Advice::kHuge);
}

TEST_F(CollapserTest, LeavesSmallHeapsAlone) {
  LockHolder hold(t.lock);
  AddGone(4);
  t.used = Pages(2047);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 0u);
  t.used = Pages(2048);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 1u);
}

// Free pages that come back are memory that nobody uses.
TEST_F(CollapserTest, BacksNoMoreThanIsWantedOrTheHeadroom) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 4; ++i) AddBroken(kMostMissing);
  const Pages backed = t.Backed();
  t.cache.NoteTaken(HugePages(40), t.CoarseNow());
  t.cache.Give(t.allocator.Take(HugePages(40), HugePages(1)), t.CoarseNow());  // all the headroom
  Rebuild(Pages(0));
  EXPECT_EQ(collapser.collapsed_total(), 0u);
  Rebuild(t.Backed() + Pages(2 * kMostMissing + 1));
  EXPECT_EQ(collapser.collapsed_total(), 2u);
  EXPECT_EQ(t.Backed(), backed + PagesOf(HugePages(40)) + Pages(2 * kMostMissing));
}

TEST_F(CollapserTest, AHeadroomIsThereWhateverIsWanted) {
  LockHolder hold(t.lock);
  AddBroken(kMostMissing);
  Rebuild(Pages(0));
  EXPECT_EQ(collapser.collapsed_total(), 1u);
}

TEST_F(CollapserTest, StaysWithinTheHardLimit) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 3; ++i) AddBroken(kMostMissing);
  const HugeTracker* full = AddGone(4);
  Rebuild(kNoLimit, t.Backed() + Pages(kMostMissing));
  EXPECT_EQ(collapser.collapsed_total(), 2u) << "one, and the one that holds no free pages";
  EXPECT_TRUE(kernel.whole(full->page()));
  Rebuild(kNoLimit, Pages(1));
  EXPECT_EQ(collapser.collapsed_total(), 2u);
}

TEST_F(CollapserTest, RebuildsAheadOfFastGrowthAsMuchAsGrew) {
  LockHolder hold(t.lock);
  constexpr Pages kFast{1024};  // eight mebibytes
  for (int i = 0; i < 12; ++i) {
    AddBroken(100);
    AddToFiller(kPagesPerHugePage);  // no neighbours
  }
  Rebuild(Pages(0), kNoLimit, kFast - Pages(1));
  EXPECT_EQ(collapser.collapsed_total(), 0u);
  const Pages backed = t.Backed();
  Rebuild(Pages(0), kNoLimit, kFast);
  EXPECT_EQ(collapser.collapsed_total(), 10u);
  EXPECT_EQ(t.Backed(), backed + Pages(1000));
  EXPECT_EQ(t.rebuilding, Pages(0));
  Rebuild(Pages(0), t.Backed() + Pages(99), kFast);
  EXPECT_EQ(collapser.collapsed_total(), 10u) << "beyond the hard limit";
}

TEST_F(CollapserTest, WhatLacksInsideRunsIsAPartOfTheGrowthToo) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 12; ++i) {
    AddGone(100 * kNativePerPage);
    AddToFiller(kPagesPerHugePage);  // no neighbours
  }
  Rebuild(Pages(0), kNoLimit, Pages(1024));
  EXPECT_EQ(collapser.collapsed_total(), 10u);
}

// Others take memory meanwhile, as far as the hard limit allows with this.
TEST_F(CollapserTest, WhatIsBeingRebuiltIsOutOfReachAndCounts) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddBroken(kMostMissing);
  const Pages backed = t.Backed();
  size_t calls = 0;
  kernel.on_collapse = [&] {
    LockHolder again(t.lock);
    ++calls;
    EXPECT_TRUE(tracker->detached);
    EXPECT_EQ(t.Backed(), backed + Pages(kMostMissing) + kPagesInHugePage);  // the frame, too
  };
  Rebuild();
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(t.Backed(), backed + Pages(kMostMissing));
}

TEST_F(CollapserTest, LeavesWhatAnotherThreadWorksOn) {
  LockHolder hold(t.lock);
  AddGone(4);
  HugeTracker* busy = AddGone(4);
  AddGone(4);
  t.filler.Detach(busy);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 2u);
  EXPECT_TRUE(busy->detached && busy->broken);
  EXPECT_FALSE(kernel.whole(busy->page()));
}

TEST_F(CollapserTest, LeavesEmptyOnesToTheReleaser) {
  LockHolder hold(t.lock);
  AddGone(4);
  HugeTracker* empty = AddBroken(4);
  const Pages run(empty->used());
  t.used -= run;
  t.filler.Give(empty, {FirstPage(empty->page()), run});
  ASSERT_TRUE(t.filler.has_empties());
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 1u);
  EXPECT_FALSE(kernel.whole(empty->page()));
}

TEST_F(CollapserTest, RebuildsOneToSeeWhatItTakesThenEightNeighboursInACall) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 10; ++i) AddGone(4);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 10u);
  EXPECT_EQ(kernel.collapse_calls, 3u);
}

TEST_F(CollapserTest, FindsNeighboursOnBothSides) {
  LockHolder hold(t.lock);
  AddGone(4);  // rebuilt alone
  AddToFiller(kPagesPerHugePage);
  AddBroken(8);
  AddBroken(4);  // found before its neighbours
  AddBroken(8);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 4u);
  EXPECT_EQ(kernel.collapse_calls, 2u);
}

TEST_F(CollapserTest, ARefusalIsRememberedForFiveMinutes) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddGone(4);
  kernel.refuse_collapse = true;
  Rebuild();
  EXPECT_EQ(kernel.collapse_calls, 1u);
  EXPECT_EQ(t.marked, 1u);
  EXPECT_EQ(kernel.advice(tracker->page()), FakeKernel::Advice::kNoHuge);
  EXPECT_TRUE(tracker->broken && !tracker->detached);
  kernel.refuse_collapse = false;
  kernel.Advance(298'000);
  Rebuild();
  EXPECT_EQ(kernel.collapse_calls, 1u);
  Rebuild();
  EXPECT_TRUE(kernel.whole(tracker->page()));
}

TEST_F(CollapserTest, OneCallThatWaitedForACpuIsNoSlowKernel) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 8; ++i) AddBroken(4);
  kernel.on_collapse = [this] {
    if (kernel.collapse_calls == 1) kernel.Advance(100);
  };
  Rebuild();
  ASSERT_EQ(collapser.collapsed_total(), 8u);
  EXPECT_TRUE(collapser.Due());
  EXPECT_TRUE(collapser.Due());
}

TEST_F(CollapserTest, RestsAfterSlowCallsAndStopsAfterAFifthOfASecond) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 12; ++i) {
    AddGone(4);
    AddToFiller(kPagesPerHugePage);  // no neighbours
  }
  kernel.collapse_ns = 40'000'000;
  ASSERT_TRUE(collapser.Due());
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 5u);
  EXPECT_FALSE(collapser.Due());
  EXPECT_TRUE(collapser.Due());
}

struct ColdCollapserTest : CollapserTest {
  ColdCollapserTest() {
    kernel.collapse_ns = kernel.populate_ns = 5'000'000;
    kernel.on_populate = [this] {
      LockHolder hold(t.lock);
      in_flight_seen.push_back(t.in_flight.raw());
      backed_seen = t.Backed();
    };
  }
  void AddApart(int n) STRATA_REQUIRES(t.lock) {
    for (int i = 0; i < n; ++i) {
      AddGone(4);
      AddToFiller(kPagesPerHugePage);
    }
  }

  std::vector<size_t> in_flight_seen;
  Pages backed_seen;
};

TEST_F(ColdCollapserTest, AfterASlowTouchEveryFrameIsTouchedAheadAndFreed) {
  LockHolder hold(t.lock);
  AddApart(4);
  const size_t resident = kernel.resident_bytes();
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 1u) << "the others are to be as full a second later";
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 4u);
  EXPECT_EQ(in_flight_seen, (std::vector<size_t>{1, 1, 1, 1}));
  EXPECT_EQ(t.in_flight, HugePages(0));
  EXPECT_EQ(t.cache.size(), HugePages(0));
  EXPECT_EQ(kernel.resident_bytes(), resident + 4 * 4 * kNativePageSize);
}

// It waits for all CPUs, too.
TEST_F(ColdCollapserTest, ASlowRebuildSaysNothing) {
  LockHolder hold(t.lock);
  kernel.populate_ns = 400'000;
  AddApart(4);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 4u);
  EXPECT_EQ(in_flight_seen, (std::vector<size_t>{1}));
}

TEST_F(ColdCollapserTest, AsManyInACallAsAreTouchedAndFewForASmallHeap) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 12; ++i) AddGone(4);
  t.used = Pages(3 * 8192 + 8191);
  for (int i = 0; i < 2; ++i) Rebuild();
  EXPECT_EQ(in_flight_seen, (std::vector<size_t>{1, 1, 3, 3, 3, 1}));
  EXPECT_EQ(kernel.collapse_calls, 6u);
}

TEST_F(ColdCollapserTest, WhatWasLessFullMeanwhileWaitsAgain) {
  LockHolder hold(t.lock);
  AddApart(1);
  Rebuild();
  HugeTracker* full = AddGone(4);
  Rebuild();
  t.filler.Change(full, [&] { full->NoteGone(8, 4 * kMostMissing); });
  Rebuild();
  t.filler.Change(full, [&] { full->NoteReused(8, 4 * kMostMissing); });
  Rebuild();
  EXPECT_FALSE(kernel.whole(full->page()));
  Rebuild();
  EXPECT_TRUE(kernel.whole(full->page()));
}

TEST_F(ColdCollapserTest, WhatWasRebuiltAndBrokenMeanwhileWaitsAgain) {
  LockHolder hold(t.lock);
  AddApart(1);
  Rebuild();
  HugeTracker* full = AddGone(4);
  for (int i = 0; i < 2; ++i) Rebuild();
  ASSERT_TRUE(kernel.whole(full->page()));
  Break(full, {OffsetOf(full->page()), 4 * kNativePageSize});
  t.filler.Change(full, [&] { full->NoteGone(0, 4); });
  Rebuild();
  EXPECT_FALSE(kernel.whole(full->page()));
  Rebuild();
  EXPECT_TRUE(kernel.whole(full->page()));
}

TEST_F(ColdCollapserTest, NeighboursAndTheSmallHeapWaitToo) {
  LockHolder hold(t.lock);
  AddApart(1);
  Rebuild();
  const HugeTracker* old = AddGone(4);
  Rebuild();
  const HugeTracker* neighbour = AddGone(4);
  AddToFiller(kPagesPerHugePage);
  const HugeTracker* small = AddToFiller(200);
  t.map[small->page()].unadvised = true;
  t.used = Pages(8 * 8192);
  Rebuild();
  EXPECT_TRUE(kernel.whole(old->page()));
  EXPECT_FALSE(kernel.whole(neighbour->page()));
  Rebuild();
  EXPECT_TRUE(kernel.whole(neighbour->page()));
}

TEST_F(ColdCollapserTest, NothingIsRebuiltAheadOfGrowth) {
  LockHolder hold(t.lock);
  AddApart(1);
  Rebuild();
  const HugeTracker* ahead = AddBroken(100);
  for (int i = 0; i < 3; ++i) Rebuild(Pages(0), kNoLimit, Pages(2048));
  EXPECT_FALSE(kernel.whole(ahead->page()));
}

TEST_F(ColdCollapserTest, AFastTouchEndsIt) {
  LockHolder hold(t.lock);
  AddApart(4);
  Rebuild();
  kernel.populate_ns = 1'000'000;
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 4u);
  EXPECT_EQ(in_flight_seen, (std::vector<size_t>{1, 1}));
}

TEST_F(ColdCollapserTest, HowLongATouchTookCountsAHugePage) {
  LockHolder hold(t.lock);
  AddApart(2);
  for (int i = 0; i < 3; ++i) AddBroken(4);  // found after those
  t.used = Pages(8 * 8192);
  Rebuild();
  size_t touches = 0;
  kernel.on_populate = [&] { kernel.populate_ns = ++touches == 1 ? 5'000'000 : 500'000; };
  Rebuild();  // one alone, then the three together, in 1.5 ms
  EXPECT_EQ(collapser.collapsed_total(), 5u);
  EXPECT_EQ(touches, 2u);
  EXPECT_FALSE(t.cold.likely(Seconds(t.CoarseNow())));
}

TEST_F(ColdCollapserTest, ARefusedTouchSaysNothingAndIsTheLast) {
  LockHolder hold(t.lock);
  AddApart(4);
  kernel.refuse_populate = true;
  Rebuild();
  AddApart(1);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 5u);
  EXPECT_EQ(in_flight_seen, (std::vector<size_t>{1}));
  EXPECT_FALSE(t.cold.likely(Seconds(t.CoarseNow())));
}

TEST_F(ColdCollapserTest, ATouchLeavesTenHugePagesUnderTheHardLimit) {
  LockHolder hold(t.lock);
  AddApart(3);
  constexpr Pages kRoom = PagesOf(HugePages(11));
  Rebuild(kNoLimit, t.Backed() + kRoom - Pages(1));
  EXPECT_EQ(collapser.collapsed_total(), 3u);
  EXPECT_TRUE(in_flight_seen.empty());
  AddApart(1);
  const Pages limit = t.Backed() + kRoom;
  Rebuild(kNoLimit, limit);
  EXPECT_EQ(in_flight_seen.size(), 1u);
  EXPECT_EQ(backed_seen, limit - PagesOf(HugePages(10)));
}

TEST_F(ColdCollapserTest, WhatCanNotBeFreedIsCached) {
  LockHolder hold(t.lock);
  AddApart(2);
  kernel.fail_release_in = 0;
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 1u);
  EXPECT_EQ(t.cache.size(), HugePages(1));
}

TEST_F(CollapserTest, WhatBeganAsSinglePagesMayLackAQuarter) {
  LockHolder hold(t.lock);
  const auto begin = [&](size_t missing) STRATA_REQUIRES(t.lock) {
    HugeTracker* tracker = AddBroken(missing);
    tracker->sparse = true;
    AddToFiller(kPagesPerHugePage);
    return tracker;
  };
  const HugeTracker* most = begin(64);
  const HugeTracker* more = begin(65);
  HugeTracker* broken = begin(60);
  t.filler.Change(broken, [&] { broken->NoteGone(0, 8); });
  Rebuild();
  EXPECT_TRUE(kernel.whole(most->page()));
  EXPECT_FALSE(kernel.whole(more->page()) || kernel.whole(broken->page()));
  EXPECT_FALSE(most->sparse || broken->sparse);
}

struct SmallHeapTest : CollapserTest {
  SmallHeapTest() : CollapserTest(HugePages(2)) {}
};

// Nobody broke them: the kernel was never asked for hugepages there.
TEST_F(SmallHeapTest, RebuildsWhatASmallHeapBeganWith) {
  LockHolder hold(t.lock);
  const HugeTracker* first = AddToFiller(200);
  const HugeTracker* second = AddToFiller(200);
  const HugeTracker* advised = AddToFiller(200);
  ASSERT_FALSE(kernel.whole(first->page()) || kernel.whole(second->page()));
  Rebuild();
  EXPECT_TRUE(kernel.whole(first->page()) && kernel.whole(second->page()));
  EXPECT_FALSE(t.map[first->page()].unadvised);
  EXPECT_EQ(kernel.collapses, 2u);
  EXPECT_FALSE(advised->broken);
  Rebuild();
  EXPECT_EQ(kernel.collapses, 2u);
}

// They would be single pages, and tell nothing.
TEST_F(SmallHeapTest, NothingIsTouchedAheadInASmallHeap) {
  LockHolder hold(t.lock);
  AddToFiller(200);
  Rebuild();
  EXPECT_EQ(kernel.collapses, 1u);
  EXPECT_EQ(kernel.populates, 0u);
  AddToFiller(200);
  Rebuild();
  EXPECT_EQ(kernel.collapses, 2u);
  EXPECT_EQ(kernel.populates, 1u) << "all of it is in use: what was taken is advised";
}

TEST_F(SmallHeapTest, ARefusalAdvisesAgainstNoHugePage) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddToFiller(200);
  kernel.refuse_collapse = true;
  Rebuild();
  EXPECT_EQ(kernel.collapse_calls, 1u);
  EXPECT_NE(kernel.advice(tracker->page()), FakeKernel::Advice::kNoHuge);
  EXPECT_TRUE(t.map[tracker->page()].unadvised);
}

TEST_F(SmallHeapTest, LeavesWhatAnotherThreadWorksOn) {
  LockHolder hold(t.lock);
  HugeTracker* busy = AddToFiller(200);
  t.filler.Detach(busy);
  const HugeTracker* other = AddToFiller(200);
  Rebuild();
  EXPECT_EQ(kernel.collapse_calls, 1u);
  EXPECT_TRUE(busy->detached && kernel.whole(other->page()));
}

}  // namespace
}  // namespace strata
