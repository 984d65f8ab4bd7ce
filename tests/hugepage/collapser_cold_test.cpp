// Collapser where the kernel's frames are cold: what is touched ahead, what waits, and what a touch
// says.
#include <gtest/gtest.h>

#include <vector>

#include "collapser_fixture.h"
#include "hugepage/collapser.h"

namespace strata {
namespace {

using test::CollapserTest;
using test::kMostMissing;
using test::kNoLimit;

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

TEST_F(ColdCollapserTest, FastTouchesEndIt) {
  LockHolder hold(t.lock);
  AddApart(9);
  Rebuild();
  kernel.populate_ns = 100'000;
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 9u);
  EXPECT_EQ(in_flight_seen.size(), 7u) << "after six of them frames are warm";
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
  EXPECT_EQ(t.cold.mean_ns(), 978'125u) << "three of the last four took 0.5 ms each";
}

// A touch ahead costs the program nothing: on a busy host it may take long.
TEST_F(ColdCollapserTest, SlowTouchesDoNotMakeRebuildingRarer) {
  LockHolder hold(t.lock);
  kernel.collapse_ns = 1'000'000;
  kernel.populate_ns = 60'000'000;
  AddApart(4);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(collapser.Due());
    Rebuild();
  }
  EXPECT_EQ(collapser.collapsed_total(), 4u);
  EXPECT_TRUE(collapser.Due());
}

TEST_F(ColdCollapserTest, TouchesHaveATimeOfTheirOwn) {
  LockHolder hold(t.lock);
  kernel.collapse_ns = 1'000'000;
  kernel.populate_ns = 50'000'000;
  AddApart(20);
  for (int i = 0; i < 2; ++i) Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 1u + 8u) << "none without a frame that was touched";
}

TEST_F(ColdCollapserTest, SlowRebuildsEndATickThoughTouchesAreFast) {
  LockHolder hold(t.lock);
  AddApart(20);
  Rebuild();
  kernel.collapse_ns = 40'000'000;
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 1u + 5u);
  EXPECT_FALSE(collapser.Due());
}

// Not slow, on a busy machine.
TEST_F(ColdCollapserTest, ATouchThatWaitedForACpuIsNotSlow) {
  LockHolder hold(t.lock);
  kernel.populate_ns = 100'000;
  kernel.waits_ns = 60'000'000;
  AddApart(3);
  Rebuild();
  EXPECT_EQ(collapser.collapsed_total(), 3u);
  EXPECT_EQ(t.cold.mean_ns(), 325'000u);
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
  EXPECT_EQ(t.cold.mean_ns(), 0u);
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

}  // namespace
}  // namespace strata
