// Populator: how much is backed ahead of what growth, when it ends, and what it does where the
// kernel refuses or the heap has no room.
#include "hugepage/populator.h"

#include <gtest/gtest.h>

#include "hugepage/page_heap.h"
#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

class PopulatorTest : public testing::Test {
 protected:
  // Hugepages' worth of spans, all touched.
  void Grow(size_t hugepages) {
    for (size_t i = 0; i < hugepages; ++i) {
      const PageRun run = heap_.Take({kSpan});
      ASSERT_FALSE(run.range.empty());
      for (size_t k = 1; k < kPagesPerHugePage / kSpan.raw(); ++k)
        ASSERT_FALSE(heap_.Take({kSpan}).range.empty());
    }
  }
  size_t LooksUntilTheEnd() {
    size_t looks = 1;
    while (heap_.PopulateAhead() && looks < 100) ++looks;
    return looks;
  }
  size_t cached() { return heap_.Stats().cache.hugepages; }

  static constexpr Pages kSpan{64};
  FakeKernel kernel_{HugePages(512)};
  test::TestArena memory_;
  PageHeap<FakeKernel> heap_{kernel_, memory_.arena(), PageHeapOptions{}};
};

TEST_F(PopulatorTest, OnlyFastGrowthOfALargeHeapIsWorthIt) {
  Grow(31);
  EXPECT_FALSE(heap_.GrowsFast()) << "62 MiB";
  Grow(8);
  EXPECT_TRUE(heap_.GrowsFast());
  Grow(7);
  EXPECT_FALSE(heap_.GrowsFast());
}

TEST_F(PopulatorTest, KeepsWhatGoesInTwoLooksAndNoMoreThanTheCacheMayHold) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(cached(), 0u) << "nothing was taken since";
  Grow(3);
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(cached(), 6u);
  EXPECT_EQ(kernel_.populates, 1u);
  Grow(3);
  EXPECT_EQ(cached(), 3u) << "taken from there";
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(cached(), 6u);
  Grow(40);
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(cached(), 10u);
}

TEST_F(PopulatorTest, EndsHalfASecondAfterTheGrowthEachTime) {
  for (int i = 0; i < 2; ++i) {
    Grow(40);
    ASSERT_TRUE(heap_.GrowsFast());
    EXPECT_EQ(LooksUntilTheEnd(), 25u);
  }
  EXPECT_EQ(kernel_.populates, 0u);
}

TEST_F(PopulatorTest, GrowthBeginsTheHalfSecondAnew) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(heap_.PopulateAhead());
  Grow(1);
  EXPECT_EQ(LooksUntilTheEnd(), 26u) << "the first found growth";
}

TEST_F(PopulatorTest, ASmallHeapGetsNothingAndEndsItToo) {
  Grow(5);
  EXPECT_EQ(LooksUntilTheEnd(), 26u) << "the first found growth";
  EXPECT_EQ(kernel_.populates, 0u);
}

TEST_F(PopulatorTest, OneIsTriedBeforeTheHeapNeedsThemAndGivenBack) {
  kernel_.populate_ns = 5'000'000;
  Grow(11);
  heap_.PopulateAhead();
  EXPECT_EQ(kernel_.populates, 0u) << "22 MiB";
  Grow(1);
  const size_t before = kernel_.resident_bytes();
  heap_.PopulateAhead();
  EXPECT_EQ(kernel_.populates, 1u);
  EXPECT_EQ(kernel_.resident_bytes(), before);
  Grow(40);
  EXPECT_FALSE(heap_.GrowsFast()) << "by single pages, as they are cold";
  heap_.PopulateAhead();
  EXPECT_EQ(kernel_.populates, 1u) << "once";
}

TEST_F(PopulatorTest, AWarmOneChangesNothing) {
  Grow(12);
  heap_.PopulateAhead();
  EXPECT_EQ(kernel_.populates, 1u);
  heap_.PopulateAhead();
  EXPECT_EQ(kernel_.populates, 1u) << "one is enough to know";
  Grow(40);
  EXPECT_TRUE(heap_.GrowsFast());
}

TEST_F(PopulatorTest, WaitingForACpuDoesNotMakeFramesCold) {
  kernel_.waits_ns = 60'000'000;
  Grow(12);
  heap_.PopulateAhead();
  ASSERT_EQ(kernel_.populates, 1u);
  EXPECT_LE(heap_.Stats().first_touch_ns, 400'000u);
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  Grow(3);
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(heap_.Stats().first_touch_ns, 100'000u);
}

TEST_F(PopulatorTest, NoneIsTriedUnderATightLimit) {
  heap_.SetHardLimit(size_t{32} << 20);
  Grow(12);
  heap_.PopulateAhead();
  EXPECT_EQ(kernel_.populates, 0u);
}

TEST_F(PopulatorTest, ALookBacksTenHugePagesHoweverManyTheCacheMayHold) {
  const PageRange large = heap_.Take({PagesOf(HugePages(40))}).range;
  heap_.Give(large);
  heap_.ReleaseNow(SIZE_MAX);
  for (int i = 0; i < 2; ++i) heap_.Take({large.length});  // a swing that the cache missed
  ASSERT_GE(heap_.Stats().cache.limit, 40u);
  Grow(40);
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(cached(), 10u);
}

TEST_F(PopulatorTest, WhereFramesAreColdFreshHugePagesBeginAsSinglePagesInstead) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  kernel_.populate_ns = 5'000'000;
  Grow(2);
  EXPECT_EQ(kernel_.touches, 25u) << "the first of the two, after 24 fast ones";
  const PageRun cold = heap_.Take({kSpan});
  EXPECT_EQ(kernel_.advice(HugePageOf(cold.range.first)), FakeKernel::Advice::kNoHuge);
  Grow(20);
  EXPECT_FALSE(heap_.PopulateAhead()) << "it would take from the program what it saves it";
  EXPECT_FALSE(heap_.GrowsFast());
  EXPECT_EQ(kernel_.populates, 0u);
  kernel_.Advance(60'000);
  kernel_.populate_ns = 200'000;
  Grow(8);
  EXPECT_TRUE(heap_.GrowsFast()) << "a minute later it tries again";
  Grow(3);
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(kernel_.populates, 1u);
  Grow(6);
  PageRun warm;
  for (int i = 0; i < 4; ++i) warm = heap_.Take({kSpan});
  EXPECT_EQ(kernel_.advice(HugePageOf(warm.range.first)), FakeKernel::Advice::kHuge)
      << "six took 1.2 ms";
}

TEST_F(PopulatorTest, WhereATouchIsNotSurelyFastOneAtATimeIsPopulated) {
  kernel_.populate_ns = 600'000;
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  Grow(3);
  EXPECT_TRUE(heap_.PopulateAhead());
  EXPECT_EQ(cached(), 1u);
}

TEST_F(PopulatorTest, ASlowRefusalDoesNotMakeFramesCold) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  Grow(2);
  kernel_.refuse_populate = true;
  kernel_.populate_ns = 5'000'000;
  EXPECT_FALSE(heap_.PopulateAhead());
  const PageRun run = heap_.Take({kSpan});
  EXPECT_EQ(kernel_.advice(HugePageOf(run.range.first)), FakeKernel::Advice::kHuge);
}

TEST_F(PopulatorTest, ARefusalEndsItForGoodAndLosesNothing) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  kernel_.refuse_populate = true;
  Grow(2);
  const size_t backed = heap_.Stats().backed;
  const size_t resident = kernel_.resident_bytes();
  EXPECT_FALSE(heap_.PopulateAhead());
  EXPECT_EQ(heap_.Stats().backed, backed);
  EXPECT_EQ(kernel_.resident_bytes(), resident) << "what it had backed before it refused";
  Grow(20);
  EXPECT_FALSE(heap_.GrowsFast());
  Grow(2);
  EXPECT_FALSE(heap_.PopulateAhead());
  EXPECT_EQ(kernel_.populates, 1u);
}

TEST_F(PopulatorTest, WhatCanNotBeGivenBackAfterARefusalIsCached) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  kernel_.refuse_populate = true;
  kernel_.fail_release_in = 0;
  Grow(2);
  EXPECT_FALSE(heap_.PopulateAhead());
  EXPECT_EQ(cached(), 4u);
}

TEST_F(PopulatorTest, StaysWithinTheHardLimitWhateverOthersTakeMeanwhile) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  Grow(5);
  const size_t limit = heap_.Stats().backed + (size_t{13} << kHugePageShift);
  heap_.SetHardLimit(limit);
  size_t taken = 0;
  kernel_.on_populate = [&] {
    for (; !heap_.Take({kPagesInHugePage}).range.empty(); ++taken) {
    }
  };
  EXPECT_TRUE(heap_.PopulateAhead());
  kernel_.on_populate = nullptr;
  EXPECT_EQ(taken, 10u) << "left for those who ask meanwhile; what is on its way counts";
  EXPECT_EQ(heap_.Stats().backed, limit);
  EXPECT_EQ(cached(), 3u);
}

TEST_F(PopulatorTest, NothingIsPopulatedNearTheSoftLimit) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  Grow(5);
  kernel_.soft_limit = kernel_.physical_bytes() + (1 << 20);
  heap_.CheckSoftLimit();
  EXPECT_FALSE(heap_.PopulateAhead());
  EXPECT_EQ(kernel_.populates, 0u);
}

TEST_F(PopulatorTest, TheSoftLimitIsLookedAtForWhatWouldCome) {
  Grow(40);
  ASSERT_TRUE(heap_.GrowsFast());
  kernel_.soft_limit = kernel_.physical_bytes() + (60 << 20);
  heap_.CheckSoftLimit();
  const size_t looks = kernel_.looks;
  Grow(5);
  ASSERT_EQ(kernel_.looks, looks) << "that much was far enough from it";
  kernel_.soft_limit = kernel_.physical_bytes() + (1 << 20);
  EXPECT_FALSE(heap_.PopulateAhead());
  EXPECT_EQ(kernel_.populates, 0u);
}

}  // namespace
}  // namespace strata
