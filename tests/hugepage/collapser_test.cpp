// Collapser on hand-filled tiers: what is rebuilt, in how many calls, within which bounds, and the
// accounts of it.
#include "hugepage/collapser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collapser_fixture.h"

namespace strata {
namespace {

using test::CollapserTest;
using test::kMostMissing;
using test::kNoLimit;
using test::kTickTime;

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

// Those in which the program did something last; of them, what lacks least.
TEST_F(CollapserTest, RebuildsTheHottestFirst) {
  LockHolder hold(t.lock);
  const auto add = [&](size_t missing) STRATA_REQUIRES(t.lock) {
    HugeTracker* tracker = AddBroken(missing);
    AddToFiller(kPagesPerHugePage);  // no neighbours
    return tracker;
  };
  HugeTracker* cold = add(1);
  HugeTracker* hot = add(3);
  HugeTracker* warm = add(2);
  HugeTracker* hot_too = add(4);
  t.filler.EndTick();
  t.filler.NoteTouched(warm);
  t.filler.EndTick();
  t.filler.NoteTouched(hot);
  t.filler.NoteTouched(hot_too);
  kernel.collapse_ns = kTickTime.collapse_ns;  // one at a time
  for (const HugeTracker* next : {hot, hot_too, warm, cold}) {
    EXPECT_FALSE(kernel.whole(next->page()));
    Rebuild();
    EXPECT_TRUE(kernel.whole(next->page())) << next->page().raw();
    kernel.Advance(60'000);  // the pacer's rest does not matter here
  }
}

// Many times what fits in the order that is drawn up at once.
TEST_F(CollapserTest, AllAreRebuiltHoweverMany) {
  LockHolder hold(t.lock);
  constexpr size_t kMany = 6 * RebuildOrder::kMost;
  for (size_t i = 0; i < kMany; ++i) {
    AddGone(4);
    AddToFiller(kPagesPerHugePage);  // no neighbours
  }
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), kMany);
}

// Within one budget, and only the first tells of the frames.
TEST_F(CollapserTest, GoesOnInParts) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 5; ++i) {
    AddGone(4);
    AddToFiller(kPagesPerHugePage);  // no neighbours
  }
  AddGone(4);
  AddGone(4);  // two in one call
  kernel.collapse_ns = 1'000'000;
  RebuildBudget budget{kNoLimit, kNoLimit, Pages(0), kTickTime};
  EXPECT_TRUE(collapser.Rebuild(t, budget, 2));
  EXPECT_EQ(collapser.collapsed_total(), 2u);
  EXPECT_EQ(budget.time.collapse_ns, kTickTime.collapse_ns - 2'000'000);
  EXPECT_EQ(kernel.populates, 1u);
  EXPECT_TRUE(collapser.Rebuild(t, budget, 1));
  EXPECT_EQ(collapser.collapsed_total(), 3u);
  EXPECT_EQ(kernel.populates, 1u);
  EXPECT_FALSE(collapser.Rebuild(t, budget));
  EXPECT_EQ(collapser.collapsed_total(), 7u);
  EXPECT_EQ(kernel.populates, 1u);
}

// Those that are next stay so for the parts to come, unless something happened to them.
TEST_F(CollapserTest, APartLooksAgainOnlyWhenNoneIsLeft) {
  LockHolder hold(t.lock);
  HugeTracker* tracker[4];
  for (HugeTracker*& one : tracker) {
    one = AddGone(4);
    AddToFiller(kPagesPerHugePage);  // no neighbours
  }
  RebuildBudget budget{kNoLimit, kNoLimit, Pages(0), kTickTime};
  EXPECT_TRUE(collapser.Rebuild(t, budget, 1));
  std::vector<HugeTracker*> left;
  for (HugeTracker* one : tracker) {
    if (one->broken) left.push_back(one);
  }
  ASSERT_EQ(left.size(), 3u);
  const uint32_t round = left[0]->looked_at;
  EXPECT_TRUE(collapser.Rebuild(t, budget, 1));
  for (const HugeTracker* one : left) EXPECT_EQ(one->looked_at, round);
  for (HugeTracker* one : left) {
    if (one->broken) t.filler.Change(one, [&] { one->NoteGone(0, 200); });
  }
  EXPECT_FALSE(collapser.Rebuild(t, budget, 1));
  EXPECT_EQ(collapser.collapsed_total(), 2u);
}

TEST_F(CollapserTest, ATickLooksAtABoundedNumberInAllItsParts) {
  LockHolder hold(t.lock);
  std::vector<const HugeTracker*> much;
  for (size_t i = 0; i < 1200; ++i) much.push_back(AddGone(100));
  const auto looked_at = [&] {
    return std::count_if(much.begin(), much.end(),
                         [](const HugeTracker* one) { return one->looked_at != 0; });
  };
  RebuildBudget budget{kNoLimit, kNoLimit, Pages(0), kTickTime};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(collapser.Rebuild(t, budget, 1));
  EXPECT_EQ(looked_at(), 1024);
  Rebuild();
  EXPECT_EQ(looked_at(), 1200) << "the next goes on";
}

TEST_F(CollapserTest, AllPartsTogetherRebuildAheadAsMuchAsGrew) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 25; ++i) {
    AddBroken(100);
    AddToFiller(kPagesPerHugePage);  // no neighbours
  }
  RebuildBudget budget{Pages(0), kNoLimit, Pages(2048), kTickTime};
  for (int i = 0; i < 30; ++i) collapser.Rebuild(t, budget, 1);
  EXPECT_EQ(collapser.collapsed_total(), 20u);
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
