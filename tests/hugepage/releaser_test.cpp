// Releaser on hand-filled tiers: what goes first, what is not worth it, and the accounts of what
// went, was refused or is under way.
#include "hugepage/releaser.h"

#include <gtest/gtest.h>

#include <vector>

#include "test_tiers.h"

namespace strata {
namespace {

constexpr HugePages kKeepNone{0};

struct ReleaserTest : test::TestTiers {
  size_t Release(size_t pages, HugePages keep = kKeepNone, Program program = Program::kIsShort)
      STRATA_REQUIRES(t.lock) {
    return releaser.Release(t, Pages(pages), keep, program).raw();
  }
  void Stand(uint32_t ticks = kStoodWorking) STRATA_REQUIRES(t.lock) {
    for (uint32_t i = 0; i < ticks; ++i) t.filler.EndTick();
  }
  // Native pages [at, at + n) of a hugepage.
  static NativeRange In(const HugeTracker* tracker, size_t at, size_t n) {
    return {OffsetOf(tracker->page()) + at * kNativePageSize, n * kNativePageSize};
  }

  Releaser<FakeKernel> releaser;
};

TEST_F(ReleaserTest, TakesFromTheCacheThenFromRegionsThenBreaksHugePages) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddToFiller(56);
  AddRegion(1);
  AddToCache(2);
  EXPECT_EQ(Release(256), 256u);
  EXPECT_EQ(t.cache.size(), HugePages(1));
  EXPECT_EQ(t.regions.free_backed(), Pages(256));
  EXPECT_EQ(Release(512), 512u);
  EXPECT_EQ(t.cache.size(), HugePages(0));
  EXPECT_EQ(t.regions.free_backed(), Pages(0));
  EXPECT_FALSE(tracker->broken);
  EXPECT_EQ(Release(1), 200u) << "all that is free of a hugepage, or nothing";
  EXPECT_TRUE(tracker->broken && tracker->split && !tracker->detached);
  EXPECT_EQ(kernel.physical_bytes(), BytesOf(Pages(56)));
  EXPECT_EQ(releaser.released_total(), BytesOf(Pages(256 + 512 + 200)));
  EXPECT_EQ(Release(1), 0u);
}

// With pages of 64 KiB only whole ones of which nothing is in use go back; one that came back in
// part goes again when that part is free.
TEST_F(ReleaserTest, GivesBackWholePagesOfTheKernelOnly) {
  LockHolder hold(t.lock);
  kernel.SetPageBytes(64 << 10);
  AddToFiller(56);  // 7 of the kernel's 32
  EXPECT_EQ(Release(1), 200u);
  EXPECT_EQ(kernel.physical_bytes(), BytesOf(Pages(56)));
  const HugeTracker* odd = AddToFiller(57);
  EXPECT_EQ(Release(1), 192u) << "the page that is partly in use stays";
  EXPECT_EQ(odd->free_backed(), 7u);
  EXPECT_EQ(Release(1), 0u);
  NativeRange idle = In(odd, 0, 16);
  EXPECT_EQ(releaser.ReleaseInUse(t, &idle, 1, Program::kIsShort).bytes, 0u);
  EXPECT_EQ(idle.bytes, 0u) << "left alone";
}

TEST_F(ReleaserTest, TheCacheKeepsItsPartWhileRegionsHaveAnything) {
  LockHolder hold(t.lock);
  AddRegion(1);
  AddToCache(3);
  EXPECT_EQ(Release(512, HugePages(2)), 512u);
  EXPECT_EQ(t.cache.size(), HugePages(2));
  EXPECT_EQ(t.regions.free_backed(), Pages(0));
  EXPECT_EQ(Release(256, HugePages(2)), 256u);
  EXPECT_EQ(t.cache.size(), HugePages(1));
}

TEST_F(ReleaserTest, BreaksTheHugePagesWithTheFewestUsedPagesAndNoMore) {
  LockHolder hold(t.lock);
  const HugeTracker* full = AddToFiller(200);
  const HugeTracker* empty = AddToFiller(10);
  const HugeTracker* half = AddToFiller(100);
  EXPECT_EQ(Release(246), 246u);
  EXPECT_TRUE(empty->broken);
  EXPECT_FALSE(half->broken || half->detached) << "the first was just enough";
  AddToFiller(20);
  EXPECT_EQ(Release(237), 236u + 156u);
  EXPECT_TRUE(half->broken);
  EXPECT_FALSE(full->broken || full->detached);
}

TEST_F(ReleaserTest, LeavesWhatIsNotWorthBreaking) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddToFiller(256 - kBreakWorking / kNativePerPage + 1);
  Stand();
  EXPECT_EQ(Release(1, kKeepNone, Program::kWorks), 0u);
  EXPECT_FALSE(tracker->broken || tracker->detached);
  EXPECT_EQ(Release(1, kKeepNone, Program::kRests), kBreakWorking / kNativePerPage - 1);
}

// What was refilled a moment ago is wanted; and it keeps nobody else whole.
TEST_F(ReleaserTest, OneThatWasJustRefilledIsPassedOver) {
  LockHolder hold(t.lock);
  const HugeTracker* stood = AddToFiller(150);
  Stand(kStoodWorking - 1);
  EXPECT_EQ(Release(1, kKeepNone, Program::kWorks), 0u) << "a second is missing";
  Stand(1);
  const HugeTracker* fresh = AddToFiller(130);  // it would be the first to go
  EXPECT_EQ(Release(1, kKeepNone, Program::kWorks), 106u);
  EXPECT_TRUE(stood->broken);
  EXPECT_FALSE(fresh->broken || fresh->detached);
  EXPECT_EQ(Release(1, kKeepNone, Program::kRests), 0u);
  Stand(kStoodResting);
  EXPECT_EQ(Release(1, kKeepNone, Program::kRests), 126u);
}

// Of a broken one that lacks a page more than before nothing is worth taking; whole ones go.
TEST_F(ReleaserTest, BrokenOnesWithLittleToGiveKeepNoOthersWhole) {
  LockHolder hold(t.lock);
  HugeTracker* broken = AddToFiller(100);
  ASSERT_EQ(Release(1), 156u);
  t.filler.Shrink(broken, {FirstPage(broken->page()), Pages(100)}, Pages(99));
  t.used -= Pages(1);
  AddToFiller(10);
  Stand();
  EXPECT_EQ(Release(1, kKeepNone, Program::kWorks), 246u);
  EXPECT_EQ(broken->free_backed(), 1u);
}

// A refill of spans whose pages went back takes no run, and ends the stand all the same.
TEST_F(ReleaserTest, WhatIsTouchedAgainInsideRunsEndsTheStand) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(200);
  NativeRange range = In(tracker, 0, 8);
  releaser.ReleaseInUse(t, &range, 1, Program::kIsShort);
  Stand();
  EXPECT_EQ(t.filler.StoodFor(*tracker), kStoodWorking);
  const NativePages reused{range.offset, 0xff};
  releaser.NoteReused(t, &reused, 1);
  EXPECT_EQ(t.filler.StoodFor(*tracker), 0u);
}

TEST_F(ReleaserTest, ALongRestMakesLessWorthIt) {
  EXPECT_EQ(releaser.LeastGainNow(Program::kWorks), kBreakWorking);
  releaser.NoteProgram(Program::kRests, 1000);
  EXPECT_EQ(releaser.LeastGainNow(Program::kRests), kBreakRefilled);
  releaser.NoteProgram(Program::kRests, 1000 + kStoodResting);
  EXPECT_EQ(releaser.LeastGainNow(Program::kRests), kBreakResting);
  releaser.NoteProgram(Program::kRests, 1000 + kStoodLong - 1);
  EXPECT_EQ(releaser.LeastGainNow(Program::kRests), kBreakResting);
  releaser.NoteProgram(Program::kRests, 1000 + kStoodLong);
  EXPECT_EQ(releaser.LeastGainNow(Program::kRests), kBreakRested);
  releaser.NoteProgram(Program::kWorks, 2000);
  releaser.NoteProgram(Program::kRests, 2001);
  releaser.NoteProgram(Program::kRests, 2002);
  EXPECT_EQ(releaser.LeastGainNow(Program::kRests), kBreakResting) << "the rest began anew";
}

TEST_F(ReleaserTest, WhatIsUnderWayIsInNoTierAndStillCharged) {
  LockHolder hold(t.lock);
  const HugeRange cached = AddToCache(2);
  const Pages backed = t.Backed();
  size_t calls = 0;
  kernel.on_release = [&] {
    LockHolder again(t.lock);
    ++calls;
    EXPECT_EQ(t.in_flight, HugePages(2));
    EXPECT_EQ(t.cache.size(), HugePages(0));
    EXPECT_EQ(t.Backed(), backed);
    EXPECT_EQ(t.map[cached.first].state, HugePageState::kInFlight);
  };
  EXPECT_EQ(Release(512), 512u);
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(t.in_flight, HugePages(0));
  EXPECT_EQ(t.Backed(), backed - Pages(512));
  EXPECT_EQ(t.map[cached.first].state, HugePageState::kFree);
}

TEST_F(ReleaserTest, ARefusalLeavesTheAccountsAsTheyWere) {
  LockHolder hold(t.lock);
  const auto expect_refused = [&]() STRATA_NO_TSA {
    const Pages backed = t.Backed();
    const size_t total = releaser.released_total();
    kernel.fail_release_in = 0;
    EXPECT_EQ(Release(1), 0u);
    EXPECT_EQ(t.Backed(), backed);
    EXPECT_EQ(t.in_flight, HugePages(0));
    EXPECT_EQ(releaser.released_total(), total);
  };
  AddToCache(1);
  expect_refused();
  EXPECT_EQ(t.cache.size(), HugePages(1));
  EXPECT_EQ(Release(1), 256u);
  const HugeRegion* g = AddRegion(1);
  expect_refused();
  EXPECT_FALSE(g->busy());
  EXPECT_EQ(Release(1), 256u);
  const HugeTracker* tracker = AddToFiller(100);
  expect_refused();
  EXPECT_FALSE(tracker->detached);
  EXPECT_EQ(Release(1), 156u);
}

TEST_F(ReleaserTest, MarksAgainstRebuildingWithinTheBudget) {
  LockHolder hold(t.lock);
  const HugeTracker* first = AddToFiller(10);
  t.marked = PageTiers<FakeKernel>::kMarkBudget - 1;
  EXPECT_NE(Release(1), 0u);
  EXPECT_EQ(t.marked, PageTiers<FakeKernel>::kMarkBudget);
  EXPECT_EQ(kernel.advice(first->page()), FakeKernel::Advice::kNoHuge);
  const HugeTracker* second = AddToFiller(10);
  EXPECT_NE(Release(1), 0u);
  EXPECT_EQ(t.marked, PageTiers<FakeKernel>::kMarkBudget);
  EXPECT_TRUE(second->broken);
  EXPECT_EQ(kernel.advice(second->page()), FakeKernel::Advice::kHuge);
}

// The pages of a span that lies over the end of a hugepage count where they lie.
TEST_F(ReleaserTest, ASurveyCountsByHugePage) {
  LockHolder hold(t.lock);
  for (const bool first_lacks_one : {true, false}) {
    const HugeTracker* a = AddToFiller(256);
    const HugeTracker* b = AddToFiller(256);
    ASSERT_EQ(b->page(), a->page() + HugePages(1));
    // What breaking one must free, of which one page is missing in either of them.
    const uint64_t over = first_lacks_one ? 0xff7f : 0xfeff;
    std::vector<NativePages> spans{{OffsetOf(b->page()) - 8 * kNativePageSize, over}};
    for (const HugeTracker* tracker : {a, b}) {
      for (size_t at : {8, 68})
        spans.push_back({In(tracker, at, 60).offset, (uint64_t{1} << 60) - 1});
    }
    Stand();
    releaser.BeginSurvey();
    releaser.NoteIdle(t, spans.data(), spans.size());
    NativeRange ranges[]{In(a, 0, 1), In(b, 0, 1)};
    EXPECT_EQ(releaser.ReleaseInUse(t, ranges, 2, Program::kWorks).bytes, kNativePageSize);
    EXPECT_EQ(ranges[0].bytes, first_lacks_one ? 0 : kNativePageSize);
    EXPECT_EQ(ranges[1].bytes, first_lacks_one ? kNativePageSize : 0);
  }
}

TEST_F(ReleaserTest, KeepsBookOfPagesInsideRuns) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(256);
  NativeRange ranges[]{In(tracker, 4, 3), In(tracker, 100, 2)};
  const InUseRelease done = releaser.ReleaseInUse(t, ranges, 2, Program::kIsShort);
  EXPECT_EQ(done.bytes, 5 * kNativePageSize);
  EXPECT_FALSE(done.refused);
  EXPECT_EQ(t.filler.gone_native(), 5u);
  EXPECT_EQ(t.Charged(), t.Backed() - Pages(2)) << "whole pages";
  EXPECT_EQ(releaser.ReleaseInUse(t, ranges, 2, Program::kIsShort).bytes, 0u) << "gone already";
  EXPECT_EQ(releaser.released_total(), 5 * kNativePageSize);
  NativeRange more = In(tracker, 200, 1);
  EXPECT_EQ(releaser.ReleaseInUse(t, &more, 1, Program::kIsShort).bytes, kNativePageSize);
  EXPECT_EQ(kernel.splits, 1u);

  const NativePages touched[]{{OffsetOf(tracker->page()), 0b110000},
                              {OffsetOf(tracker->page()) + 100 * kNativePageSize, 0b1001}};
  EXPECT_EQ(releaser.NoteReused(t, touched, 2), 3u);
  EXPECT_EQ(tracker->gone(), 3u);
}

TEST_F(ReleaserTest, RangesMayBeManyAndInManyHugePages) {
  LockHolder hold(t.lock);
  std::vector<NativeRange> ranges;
  for (int i = 0; i < 3; ++i) {
    const HugeTracker* tracker = AddToFiller(256);
    for (size_t at = 0; at < kNativePerHugePage; at += 5) ranges.push_back(In(tracker, at, 1));
  }
  const size_t before = kernel.physical_bytes();
  EXPECT_EQ(releaser.ReleaseInUse(t, ranges.data(), ranges.size(), Program::kIsShort).bytes,
            ranges.size() * kNativePageSize);
  EXPECT_EQ(t.filler.gone_native(), ranges.size());
  EXPECT_EQ(kernel.physical_bytes(), before - ranges.size() * kNativePageSize);
}

TEST_F(ReleaserTest, WhatIsLeftOfARangeInTooManyPiecesGoesTheNextTimes) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddToFiller(256);
  std::vector<NativeRange> pieces;
  for (size_t at = 0; at < kNativePerHugePage; at += 2) pieces.push_back(In(tracker, at, 1));
  releaser.ReleaseInUse(t, pieces.data(), pieces.size(), Program::kIsShort);
  ASSERT_EQ(tracker->gone(), pieces.size());
  for (int i = 0; i < 3; ++i) {
    NativeRange all = In(tracker, 0, kNativePerHugePage);
    releaser.ReleaseInUse(t, &all, 1, Program::kIsShort);
  }
  EXPECT_EQ(tracker->gone(), kNativePerHugePage);
}

TEST_F(ReleaserTest, PassesOverPagesInsideRunsThatAnotherThreadWorksOn) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(256);
  t.filler.Detach(tracker);
  NativeRange range = In(tracker, 4, 3);
  const InUseRelease done = releaser.ReleaseInUse(t, &range, 1, Program::kIsShort);
  EXPECT_EQ(done.bytes + tracker->gone() + kernel.release_calls, 0u);
  EXPECT_FALSE(done.refused);
  EXPECT_TRUE(tracker->detached);
}

// The kernel frees what was released of a hugepage only when it takes the hugepage apart, for which
// a page is named that stays: a free one will do.
TEST_F(ReleaserTest, FreesAllOfTheOnlyRunThoughNothingElseIsInUse) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(32);
  NativeRange all = In(tracker, 0, 64);
  const size_t before = kernel.physical_bytes();
  EXPECT_EQ(releaser.ReleaseInUse(t, &all, 1, Program::kIsShort).bytes, 64 * kNativePageSize);
  EXPECT_EQ(kernel.splits, 1u);
  EXPECT_EQ(kernel.physical_bytes(), before - 64 * kNativePageSize);
  EXPECT_TRUE(tracker->split);
}

// And takes it apart by itself when nothing stays.
TEST_F(ReleaserTest, NothingIsSplitOfWhichAllGoes) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(256);
  NativeRange all = In(tracker, 0, kNativePerHugePage);
  EXPECT_EQ(releaser.ReleaseInUse(t, &all, 1, Program::kIsShort).bytes, kHugePageSize);
  EXPECT_EQ(kernel.splits, 0u);
  EXPECT_EQ(kernel.physical_bytes(), 0u);
  // Its run goes too, and there is nothing that the kernel need be asked for.
  t.used -= Pages(256);
  t.filler.Give(tracker, {FirstPage(tracker->page()), Pages(256)});
  const HugePages free = t.allocator.free();
  EXPECT_EQ(releaser.ReleaseEmpties(t), Pages(0));
  EXPECT_EQ(kernel.release_calls, 1u);
  EXPECT_EQ(t.allocator.free(), free + HugePages(1));
  EXPECT_EQ(t.marked, 0u);
}

TEST_F(ReleaserTest, EmptyOnesThatTheKernelRefusesAreTriedOnce) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(100);
  EXPECT_EQ(Release(1), 156u);
  t.used -= Pages(100);
  t.filler.Give(tracker, {FirstPage(tracker->page()), Pages(100)});
  size_t calls = 0;
  kernel.on_release = [&] {
    ++calls;
    kernel.fail_release_in = 0;
  };
  EXPECT_EQ(releaser.ReleaseEmpties(t), Pages(0));
  EXPECT_EQ(calls, 1u);
  kernel.on_release = nullptr;
  EXPECT_EQ(releaser.ReleaseEmpties(t), Pages(100));
}

// They are free, but not of those that the kernel was asked to take.
TEST_F(ReleaserTest, PagesThatComeFreeMeanwhileAreStillBacked) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(100);
  kernel.on_release = [&] {
    LockHolder again(t.lock);
    t.used -= Pages(60);
    t.filler.Shrink(tracker, {FirstPage(tracker->page()), Pages(100)}, Pages(40));
  };
  EXPECT_EQ(Release(1), 156u);
  EXPECT_EQ(tracker->free_backed(), 60u);
  EXPECT_EQ(releaser.released_total(), BytesOf(Pages(156)));
}

TEST_F(ReleaserTest, RefusedPagesInsideRunsStay) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddToFiller(256);
  kernel.fail_release_in = 0;
  NativeRange range = In(tracker, 4, 3);
  const InUseRelease done = releaser.ReleaseInUse(t, &range, 1, Program::kIsShort);
  EXPECT_TRUE(done.refused);
  EXPECT_EQ(done.bytes + tracker->gone() + releaser.released_total(), 0u);
  EXPECT_FALSE(tracker->detached);
}

TEST_F(ReleaserTest, DropsTwoEmptyRegionsAtATime) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 3; ++i) AddRegion(2);
  HugeRegion* busy = AddRegion(0);
  t.regions.Take(busy, Pages(1));
  const Pages backed = t.FreeBacked();
  const HugePages free = t.allocator.free();
  releaser.DropEmptyRegions(t);
  EXPECT_EQ(t.cache.size(), HugePages(4));
  EXPECT_EQ(t.allocator.free(), free + HugePages(2 * (512 - 2)));
  EXPECT_EQ(t.FreeBacked(), backed);
  releaser.DropEmptyRegions(t);
  releaser.DropEmptyRegions(t);
  EXPECT_EQ(t.cache.size(), HugePages(6));
  EXPECT_EQ(t.regions.first(), busy);
}

// Who releases it comes back to it.
TEST_F(ReleaserTest, ARegionInAReleaseIsNotDropped) {
  LockHolder hold(t.lock);
  const HugeRegion* g = AddRegion(2);
  kernel.on_release = [&] {
    LockHolder again(t.lock);
    releaser.DropEmptyRegions(t);
    EXPECT_EQ(t.regions.first(), g);
  };
  EXPECT_EQ(Release(512), 512u);
  EXPECT_EQ(t.regions.free_backed(), Pages(0));
}

// As if a thread that is not here had been in the middle of each kind of release.
TEST_F(ReleaserTest, RecoversWhatWasUnderWay) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(100);
  HugeRegion* g = AddRegion(3);
  AddToCache(2);
  const Pages backed = t.Backed();
  t.filler.Detach(tracker);
  const HugeRange taken = t.cache.TakeForRelease(HugePages(2), t.CoarseNow());
  t.map.SetState(taken, HugePageState::kInFlight);
  t.in_flight = taken.length;
  ASSERT_FALSE(g->DetachForRelease(HugePages(2)).empty());
  releaser.Recover(t);
  EXPECT_FALSE(tracker->detached || g->busy());
  EXPECT_EQ(t.cache.size(), HugePages(2));
  EXPECT_EQ(t.in_flight, HugePages(0));
  EXPECT_EQ(t.Backed(), backed);
  EXPECT_EQ(Release(512 + 768 + 156), 512u + 768u + 156u);
}

}  // namespace
}  // namespace strata
