// PageRuns in a page heap: when a region is opened, what becomes of a hugepage without metadata,
// and what a run may not grow over.
#include "hugepage/page_runs.h"

#include <gtest/gtest.h>

#include <vector>

#include "hugepage/page_heap.h"
#include "hugepage/page_tiers_report.h"
#include "os/fake_kernel.h"
#include "test_arena.h"
#include "test_tiers.h"

namespace strata {
namespace {

struct PageRunsTest : testing::Test {
  PageRange Take(size_t n) { return heap.Take({Pages(n)}).range; }
  void Write(PageRange r) {
    for (size_t i = r.first.raw() * kNativePerPage; i < r.end().raw() * kNativePerPage; ++i)
      kernel.Write(i, 1);
  }

  test::TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageHeap<FakeKernel> heap{kernel, meta.arena(), {.small_heap = HugePages(4)}};
};

TEST_F(PageRunsTest, NoRegionIsOpenedWhileTailsWasteLessThanIsInUseBesides) {
  constexpr size_t kSmall = 80;  // hugepages
  for (size_t i = 0; i < 2 * kSmall; ++i) Take(128);
  while (heap.Stats().region.regions == 0) {
    Take(257);
    ASSERT_LE(heap.Stats().filler.slack, 2 * kSmall * kHugePageSize);
  }
  EXPECT_GE(heap.Stats().filler.slack, kSmall * kHugePageSize);
}

TEST_F(PageRunsTest, AHugePageForWhichThereIsNoRecordIsNotTakenForAFreshOne) {
  const PageRange large = Take(512);
  Write(large);
  meta.fail = true;
  std::vector<PageRange> runs;
  for (PageRange r; !(r = Take(128)).empty();) {
    runs.push_back(r);
    ASSERT_LT(runs.size(), 5000u);
  }
  const size_t of_runs = kernel.physical_bytes() - BytesOf(large.length);
  heap.Give(large);
  EXPECT_TRUE(Take(128).empty());
  EXPECT_EQ(kernel.physical_bytes(), of_runs + heap.free_backed().raw() * kPageSize);
  meta.fail = false;
  const PageRun run = heap.Take({Pages(512)});
  for (size_t i = 0; run.zeroed && i < 512 * kNativePerPage; ++i)
    ASSERT_EQ(kernel.Read(run.range.first.raw() * kNativePerPage + i), 0u);
}

// Its tail is out of everyone's reach.
TEST_F(PageRunsTest, ARunDoesNotGrowOverATailThatIsBeingRebuilt) {
  const PageRange r = Take(300);  // in the small heap
  const PageRange behind = Take(512);
  Take(8192);
  heap.Give(behind);
  size_t calls = 0;
  kernel.on_collapse = [&] {
    ++calls;
    EXPECT_FALSE(heap.TryGrow(r, Pages(600)));
  };
  kernel.Advance(1000);
  heap.Tick(CallRate::kBusy, Program::kWorks);
  EXPECT_EQ(calls, 1u);
  EXPECT_TRUE(heap.TryGrow(r, Pages(600)));
}

struct FirstTouchTest : PageRunsTest {
  // A small heap, which is not asked to be huge.
  FirstTouchTest() {
    for (int i = 0; i < 32; ++i) large_heap.Take({Pages(128)});
    EXPECT_EQ(kernel.touches, 0u);
  }
  PageRange Take(size_t n) { return large_heap.Take({Pages(n)}).range; }

  PageHeap<FakeKernel> large_heap{kernel, meta.arena(), {.small_heap = HugePages(16)}};
};

TEST_F(FirstTouchTest, OfAFreshHugePageTheFirstRunIsTouchedAtOnce) {
  const PageRange first = Take(128);
  EXPECT_EQ(kernel.touches, 1u);
  EXPECT_TRUE(kernel.whole(HugePageOf(first.first)));
  Take(128);
  EXPECT_EQ(kernel.touches, 1u);
  Take(512);
  EXPECT_EQ(kernel.touches, 1u) << "a large run is the program's to touch";
}

TEST_F(FirstTouchTest, OneFromTheCacheIsNot) {
  const PageRange large = Take(512);
  Write(large);
  large_heap.Give(large);
  Take(128);
  EXPECT_EQ(kernel.touches, 0u);
}

TEST_F(FirstTouchTest, AfterASlowTouchTheNextBeginsAsSinglePages) {
  kernel.populate_ns = 5'000'000;
  EXPECT_TRUE(kernel.whole(HugePageOf(Take(128).first)));
  EXPECT_EQ(large_heap.Stats().cold_frames, 1u);
  EXPECT_EQ(large_heap.Stats().first_touch_ns, 1'550'000u);
  Take(128);
  EXPECT_EQ(kernel.advice(HugePageOf(Take(128).first)), FakeKernel::Advice::kNoHuge);
  EXPECT_EQ(kernel.touches, 1u);
}

// Also where the frames are cold: nobody would rebuild it.
TEST_F(FirstTouchTest, WithoutTicksEachBeginsWhole) {
  kernel.populate_ns = 5'000'000;
  Take(128);
  large_heap.NoteNoTicks();
  Take(128);
  EXPECT_EQ(kernel.advice(HugePageOf(Take(128).first)), FakeKernel::Advice::kHuge);

  FakeKernel other(HugePages(64));
  other.populate_ns = 5'000'000;
  test::TestArena memory;
  PageHeap<FakeKernel> untended(other, memory.arena(), {.ticks = false, .small_heap = {}});
  for (size_t i = 0; i < 8; ++i) untended.Take({Pages(128)});
  for (HugePageId p; p < HugePageId(4); p += HugePages(1))
    EXPECT_EQ(other.advice(p), FakeKernel::Advice::kHuge) << p.raw();
}

TEST_F(FirstTouchTest, WhereNotEvenTheTimeMayBeAskedForATouchSaysNothing) {
  kernel.may_not_ask_time = true;
  Take(128);
  EXPECT_EQ(kernel.touches, 1u);
  EXPECT_EQ(large_heap.Stats().first_touch_ns, 0u);
}

struct ColdRunsTest : test::TestTiers {
  ColdRunsTest() {
    LockHolder hold(t.lock);
    t.cold.NoteTouches(5'000'000, 1, Seconds(t.CoarseNow()));
  }
  PageRange Take(size_t n) STRATA_REQUIRES(t.lock) {
    const PageRange r = runs.Take(t, {Pages(n)}).range;
    t.used += r.length;
    Write(r);
    return r;
  }
  void Give(PageRange r) STRATA_REQUIRES(t.lock) {
    t.used -= r.length;
    runs.Give(t, r);
  }
  void Write(PageRange r) {
    for (size_t i = r.first.raw() * kNativePerPage; i < r.end().raw() * kNativePerPage; ++i)
      kernel.Write(i, 1);
  }

  HardLimit hard_limit{0};
  SoftLimit soft_limit;
  PageRuns<FakeKernel> runs{hard_limit, soft_limit};
};

TEST_F(ColdRunsTest, AHugePageIsBackedAsItsPagesAreTouched) {
  LockHolder hold(t.lock);
  const PageRange r = Take(10);
  EXPECT_EQ(kernel.physical_bytes(), BytesOf(r.length));
  EXPECT_EQ(t.Backed(), r.length);
  EXPECT_TRUE(t.InFiller(HugePageOf(r.first))->sparse);
}

TEST_F(ColdRunsTest, WhatBeganAsSinglePagesIsToldFromWhatWasBroken) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = t.InFiller(HugePageOf(Take(10).first));
  EXPECT_EQ(StateOf(*tracker), 's');
  t.filler.Change(tracker, [&] { tracker->NoteGone(0, 8); });
  EXPECT_EQ(StateOf(*tracker), 'b') << "both are true of it";
  t.filler.Detach(tracker);
  tracker->NoteCollapsed();
  t.filler.Reattach(tracker);
  EXPECT_EQ(StateOf(*tracker), 'r');
  t.filler.Change(tracker, [&] { tracker->broken = true; });
  EXPECT_EQ(StateOf(*tracker), 'p');
}

// The tick that drains them comes once a second.
TEST_F(ColdRunsTest, WhatWasEmptiedIsTakenAgain) {
  LockHolder hold(t.lock);
  for (int round = 0; round < 20; ++round) {
    std::vector<PageRange> all;
    for (int i = 0; i < 80; ++i) all.push_back(Take(128));
    for (const PageRange r : all) Give(r);
  }
  EXPECT_LE(kernel.physical_bytes(), 41 * kHugePageSize);
  EXPECT_LE(t.marked, 41u);
}

TEST_F(ColdRunsTest, ACachedHugePageGoesFirst) {
  LockHolder hold(t.lock);
  Give(Take(128));
  ASSERT_TRUE(t.filler.has_empties());
  const HugeRange cached = AddToCache(1);
  EXPECT_EQ(HugePageOf(Take(128).first), cached.first);
}

TEST_F(ColdRunsTest, WarmFramesAreTakenBeforeWhatWasEmptied) {
  LockHolder hold(t.lock);
  Give(Take(128));
  t.cold.NoteTouches(100'000, 4, Seconds(t.CoarseNow()));
  EXPECT_EQ(kernel.advice(HugePageOf(Take(128).first)), FakeKernel::Advice::kHuge);
}

TEST_F(ColdRunsTest, ALargeRunGrowsOverItsOwnTail) {
  LockHolder hold(t.lock);
  const PageRange r = Take(300);
  EXPECT_EQ(t.marked, 0u);
  EXPECT_TRUE(runs.TryGrow(t, r, Pages(500)));
}

TEST_F(ColdRunsTest, NoMoreMarksThanTheBudget) {
  LockHolder hold(t.lock);
  t.marked = t.kMarkBudget - 1;
  Take(128);
  Take(128);
  EXPECT_EQ(t.marked, t.kMarkBudget);
  EXPECT_EQ(kernel.advice(HugePageOf(Take(128).first)), FakeKernel::Advice::kHuge);
}

}  // namespace
}  // namespace strata
