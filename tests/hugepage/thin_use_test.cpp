// What becomes of memory that a program takes in small runs and hardly touches: single pages, which
// become hugepages when they are touched after all.
#include "hugepage/thin_use.h"

#include <gtest/gtest.h>

#include <vector>

#include "collapser_fixture.h"
#include "hugepage/page_heap.h"
#include "hugepage/touch_survey.h"
#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

using Advice = FakeKernel::Advice;

constexpr HugePages kSmallHeap{16};

class ThinUseTest : public testing::Test {
 protected:
  ThinUseTest() { kernel_.tells_resident = true; }

  PageRange Take(size_t touched) {
    const PageRange r = heap_.Take({kRun}).range;
    EXPECT_FALSE(r.empty());
    runs_.push_back(r);
    Touch(r, touched);
    return r;
  }
  void Touch(PageRange r, size_t native) {
    for (size_t i = 0; i < native; ++i) kernel_.Write(r.first.raw() * kNativePerPage + i, 1);
  }
  // Hugepages' worth of runs, of each of which so many native pages are touched.
  void Grow(size_t hugepages, size_t touched) {
    for (size_t i = 0; i < hugepages * kPagesPerHugePage / kRun.raw(); ++i) Take(touched);
  }
  size_t Whole() const {
    size_t n = 0;
    for (HugePageId p; p < HugePageId(kernel_.mapped().raw()); p += HugePages(1))
      n += kernel_.whole(p);
    return n;
  }
  void Tick() {
    kernel_.Advance(1000);
    heap_.Tick(CallRate::kBusy, Program::kWorks);
  }

  static constexpr Pages kRun{32};
  static constexpr size_t kAll = kRun.raw() * kNativePerPage;
  static constexpr size_t kThin = 3;

  FakeKernel kernel_{HugePages(2048)};
  test::TestArena memory_;
  PageHeap<FakeKernel> heap_{kernel_, memory_.arena(), {.small_heap = kSmallHeap}};
  std::vector<PageRange> runs_;
};

TEST_F(ThinUseTest, WhatIsHardlyTouchedStaysSmall) {
  Grow(200, kThin);
  EXPECT_EQ(kernel_.resident_bytes(), runs_.size() * kThin * kNativePageSize);
  EXPECT_EQ(kernel_.advice(HugePageId(3)), Advice::kNone) << "the small heap";
  EXPECT_FALSE(heap_.GrowsFast()) << "and would be backed ahead";
  for (int i = 0; i < 200; ++i) Tick();
  EXPECT_EQ(Whole(), 0u);
  EXPECT_LE(kernel_.resident_calls, kSmallHeap.raw() + 184u + 200u * 40) << "ever less often";
}

TEST_F(ThinUseTest, FilledLaterItIsRebuilt) {
  Grow(60, kThin);
  for (int i = 0; i < 20; ++i) Tick();
  ASSERT_EQ(Whole(), 0u);
  for (const PageRange r : runs_) Touch(r, kAll);
  for (int i = 0; i < 20; ++i) Tick();
  EXPECT_GE(Whole(), 59u);
}

TEST_F(ThinUseTest, ADenseHeapGetsHugepagesAsItGrows) {
  Grow(200, kAll);
  EXPECT_GE(Whole(), 200 - kSmallHeap.raw());
  EXPECT_EQ(kernel_.advice(HugePageId(3)), Advice::kHuge);
  EXPECT_LE(kernel_.resident_calls, kSmallHeap.raw()) << "once, when the small heap was used up";
}

TEST_F(ThinUseTest, WhenUseBecomesDenseTheNextHugepagesAreWhole) {
  Grow(40, kThin);
  ASSERT_EQ(Whole(), 0u);
  Grow(20, kAll);
  const size_t looks = kernel_.resident_calls;
  const size_t before = Whole();
  Grow(20, kAll);
  EXPECT_EQ(Whole() - before, 20u);
  EXPECT_EQ(kernel_.resident_calls, looks);
  EXPECT_EQ(kernel_.advice(HugePageId(3)), Advice::kHuge) << "the small heap too";
  EXPECT_TRUE(heap_.GrowsFast());
}

TEST_F(ThinUseTest, HalfIsEnough) {
  Grow(20, kAll / 2);
  EXPECT_EQ(kernel_.advice(HugePageId(3)), Advice::kHuge);
}

TEST_F(ThinUseTest, ALargeArrayIsTheProgramsToTouch) {
  heap_.Take({Pages(15 * kPagesPerHugePage)});
  Grow(20, kAll);
  EXPECT_GE(Whole(), 18u) << "nothing of the array is touched, and it does not count";
}

TEST_F(ThinUseTest, WhatCannotBeToldCountsAsDense) {
  kernel_.tells_resident = false;
  Grow(40, kThin);
  EXPECT_EQ(kernel_.advice(HugePageId(3)), Advice::kHuge);
  EXPECT_GE(Whole(), 40 - kSmallHeap.raw());
}

// What begins as single pages would stay so.
TEST_F(ThinUseTest, WhereNothingIsRebuiltHugepagesBeginWhole) {
  const auto whole_of = [](FakeKernel& kernel, const PageHeapOptions& options) {
    kernel.tells_resident = true;
    test::TestArena memory;
    PageHeap<FakeKernel> heap(kernel, memory.arena(), options);
    for (size_t i = 0; i < 40 * kPagesPerHugePage / kRun.raw(); ++i)
      kernel.Write(heap.Take({kRun}).range.first.raw() * kNativePerPage, 1);
    size_t n = 0;
    for (HugePageId p; p < HugePageId(40); p += HugePages(1)) n += kernel.whole(p);
    return n;
  };
  FakeKernel usual(HugePages(64)), kept(HugePages(64)), left(HugePages(64)), old(HugePages(64));
  old.can_collapse = false;
  EXPECT_EQ(whole_of(usual, {.small_heap = kSmallHeap}), 0u);
  EXPECT_EQ(whole_of(kept, {.release = false, .small_heap = kSmallHeap}), 24u);
  EXPECT_EQ(whole_of(left, {.ticks = false, .small_heap = kSmallHeap}), 24u);
  EXPECT_EQ(whole_of(old, {.small_heap = kSmallHeap}), 24u);
}

TEST_F(ThinUseTest, WithoutTicksTheNextHugepagesAreWhole) {
  Grow(20, kThin);
  heap_.NoteNoTicks();
  Grow(20, kThin);
  EXPECT_EQ(Whole(), 20u);
  EXPECT_EQ(kernel_.advice(HugePageId(3)), Advice::kHuge) << "the small heap too";
}

TEST_F(ThinUseTest, WhenNobodyCanTellAnyMoreTheNextHugepagesAreWhole) {
  Grow(20, kThin);
  kernel_.tells_resident = false;
  Grow(20, kThin);
  EXPECT_GE(Whole(), 11u) << "from the next look on, at each eighth";
}

TEST_F(ThinUseTest, TheEndOfALargeRunIsTheProgramsToTouch) {
  Grow(20, kThin);
  ASSERT_EQ(heap_.Stats().thin_use, 1u);
  const PageRange r = heap_.Take({Pages(2 * kPagesPerHugePage + 150)}).range;
  EXPECT_NE(kernel_.advice(HugePageOf(r.end() - Pages(1))), Advice::kNoHuge);
}

TEST_F(ThinUseTest, WhatWasEmptiedIsTakenAgain) {
  Grow(40, kThin);
  const HugePages mapped = kernel_.mapped();
  for (int round = 0; round < 20; ++round) {
    for (const PageRange r : runs_) heap_.Give(r);
    runs_.clear();
    Grow(40, kThin);
  }
  EXPECT_EQ(kernel_.mapped(), mapped);
  EXPECT_EQ(Whole(), 0u);
}

TEST(ThinUse, OfTooLittleNothingIsConcluded) {
  ThinUse use;
  use.NoteLook(0, 2 * kNativePerHugePage - 1);
  EXPECT_FALSE(use.likely());
  use.NoteLook(0, 2 * kNativePerHugePage);
  EXPECT_TRUE(use.likely());
  use.NoteLook(3, 3);
  EXPECT_TRUE(use.likely());
  use.NoteLook(kNativePerHugePage, 2 * kNativePerHugePage);
  EXPECT_FALSE(use.likely());
}

struct ThinRebuildTest : test::CollapserTest {
  ThinRebuildTest() { kernel.tells_resident = true; }
  // In use, of which so many native pages have memory.
  HugeTracker* AddThin(size_t touched) STRATA_REQUIRES(t.lock) {
    HugeTracker* tracker = AddToFiller(kPagesPerHugePage);
    Break(tracker, {OffsetOf(tracker->page()) + touched * kNativePageSize,
                    (kNativePerHugePage - touched) * kNativePageSize});
    return tracker;
  }
};

TEST_F(ThinRebuildTest, OnlyWhatIsHalfTouchedIsRebuilt) {
  LockHolder hold(t.lock);
  HugeTracker* dense = AddThin(kNativePerHugePage / 2 + 1);
  HugeTracker* thin = AddThin(kNativePerHugePage / 2 - 1);
  HugeTracker* behind = AddThin(kNativePerHugePage / 2 + 1);
  Rebuild();
  EXPECT_FALSE(dense->broken);
  EXPECT_TRUE(thin->broken);
  EXPECT_FALSE(thin->detached);
  EXPECT_FALSE(behind->broken) << "in the same tick, by a call of its own";
}

TEST_F(ThinRebuildTest, AfterAQuarterOfItsAgeAThinOneIsAskedAgain) {
  kernel.Advance(1000);
  LockHolder hold(t.lock);
  const HugeTracker* thin = AddThin(kNativePerHugePage / 2 - 1);
  t.map[thin->page()].in_use_since_s = Seconds(t.CoarseNow());
  kernel.Advance(39'000);
  Rebuild();  // at 40 s
  ASSERT_EQ(kernel.resident_calls, 1u);
  for (int s = 41; s < 50; ++s) Rebuild();
  EXPECT_EQ(kernel.resident_calls, 1u);
  Rebuild();
  EXPECT_EQ(kernel.resident_calls, 2u);
}

// The lock is dropped for the question: what may be backed counts as backed.
TEST_F(ThinRebuildTest, WhileTheKernelIsAskedOthersSeeWhatMayBeBacked) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddBroken(test::kMostMissing);
  Pages rebuilding;
  kernel.on_resident = [&]() STRATA_NO_TSA {
    t.lock.Acquire();
    rebuilding = t.rebuilding;
    t.lock.Release();
  };
  Rebuild();
  EXPECT_EQ(rebuilding, Pages(test::kMostMissing));
  EXPECT_FALSE(tracker->broken);
  EXPECT_EQ(t.rebuilding, Pages(0));
}

TEST_F(ThinRebuildTest, WhatWasFreedMeanwhileIsNotRebuilt) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddThin(400);
  kernel.on_resident = [&]() STRATA_NO_TSA {
    t.lock.Acquire();
    t.filler.Give(tracker, {FirstPage(tracker->page()), Pages(kPagesPerHugePage)});
    t.lock.Release();
  };
  Rebuild();
  EXPECT_EQ(kernel.collapse_calls, 0u);
}

// Only the pages in use count, not those that lie free with memory behind them.
TEST_F(ThinRebuildTest, FreePagesSayNothing) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddThin(200);
  const PageRange first{FirstPage(tracker->page()), Pages(kPagesPerHugePage)};
  t.filler.Shrink(tracker, first, Pages(150));
  Rebuild();
  EXPECT_FALSE(tracker->broken) << "200 of 300";
}

// A rebuild may be about to fill it.
struct SurveyTest : test::TestTiers {
  SurveyTest() : TestTiers(kSmallHeap) { kernel.tells_resident = true; }
  HugeTracker* AddUntouched() STRATA_REQUIRES(t.lock) {
    HugeTracker* tracker = AddToFiller(kPagesPerHugePage);
    const NativeRange all{OffsetOf(tracker->page()), kHugePageSize};
    EXPECT_TRUE(kernel.Release(&all, 1));
    return tracker;
  }
};

TEST_F(SurveyTest, OneThatIsDetachedDoesNotCount) {
  LockHolder hold(t.lock);
  for (int i = 0; i < 2; ++i) AddUntouched();
  for (int i = 0; i < 3; ++i) t.filler.Detach(AddToFiller(kPagesPerHugePage));
  [&]() STRATA_NO_TSA { TouchSurvey<FakeKernel>(t).LookAtSmallHeap(); }();
  EXPECT_TRUE(t.thin_use.likely());
}

}  // namespace
}  // namespace strata
