// The page heap keeps hugepages whole, and makes them whole again: what is worth breaking by all
// that a survey found, which are rebuilt in one call, and how much memory and time that may take.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "base/units.h"
#include "hugepage/page_heap.h"
#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

struct KeepsTest : testing::Test {
  KeepsTest() {
    for (size_t i = 0; i < kHugePages * kPagesPerHugePage; ++i) {
      runs.push_back(heap.Take({Pages(1), Pages(1)}).range);
      for (size_t n = 0; n < kNativePerPage; ++n)
        kernel.Write(runs[i].first.raw() * kNativePerPage + n, 1);
    }
    for (uint32_t s = 0; s < kStoodWorking; ++s) Second(Program::kWorks);
  }
  // Native pages of a hugepage, from its first on, that nothing lives on.
  static NativePages Idle(size_t hugepage, size_t n) {
    return {hugepage * kHugePageSize, n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1};
  }
  static NativeRange RangeOf(NativePages p) {
    return {p.offset, static_cast<size_t>(std::popcount(p.pages)) * kNativePageSize};
  }
  // Idle pages of one hugepage, in parts of 32, found by a survey.
  std::vector<NativeRange> Survey(size_t hugepage, size_t n) {
    heap.BeginSurvey();
    std::vector<NativeRange> ranges;
    for (size_t at = 0; at < n; at += 32) {
      NativePages part = Idle(hugepage, std::min<size_t>(32, n - at));
      part.offset += at * kNativePageSize;
      heap.NoteIdle(&part, 1);
      ranges.push_back(RangeOf(part));
    }
    return ranges;
  }
  size_t Release(std::vector<NativeRange>& ranges, Program program) {
    return heap.ReleaseInUse(ranges.data(), ranges.size(), program).bytes;
  }
  void Second(Program program) {
    kernel.Advance(1000);
    heap.Tick(program == Program::kRests ? CallRate::kIdle : CallRate::kBusy, program);
  }
  // Leaves so many holes in a hugepage, given back and taken again but for the last ones.
  void Break(size_t hugepage, size_t missing) {
    NativeRange hole = RangeOf(Idle(hugepage, missing));
    ASSERT_EQ(heap.ReleaseInUse(&hole, 1, Program::kIsShort).bytes, missing * kNativePageSize);
    ASSERT_FALSE(kernel.whole(HugePageId(hugepage)));
  }
  // Gives back some free pages of each, so that the hugepages are broken.
  void BreakFree(size_t first, size_t n) {
    for (size_t h = first; h < first + n; ++h) {
      for (size_t i = 0; i < 10; ++i) heap.Give(runs[h * kPagesPerHugePage + i]);
    }
    ASSERT_EQ(heap.ReleaseNow(BytesOf(Pages(10 * n))), BytesOf(Pages(10 * n)));
    ASSERT_FALSE(kernel.whole(HugePageId(first)));
  }

  static constexpr size_t kHugePages = 40;
  test::TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageHeap<FakeKernel> heap{kernel, meta.arena(), {.small_heap = HugePages(4)}};
  std::vector<PageRange> runs;
};

TEST_F(KeepsTest, BreaksNoHugePageForAFewNativePages) {
  auto few = Survey(20, 100);
  EXPECT_EQ(Release(few, Program::kWorks), 0u);
  EXPECT_TRUE(kernel.whole(HugePageId(20)));
  for (const NativeRange& r : few) EXPECT_EQ(r.bytes, 0u) << "the owner is told";
  few = Survey(20, 100);
  EXPECT_EQ(Release(few, Program::kRests), 100 * kNativePageSize);
  EXPECT_FALSE(kernel.whole(HugePageId(20)));
}

TEST_F(KeepsTest, BreaksOneForAllThatASurveyFoundInIt) {
  auto parts = Survey(20, 130);
  // In the batches of their owners, each of which is little.
  size_t bytes = 0;
  for (NativeRange& r : parts) bytes += heap.ReleaseInUse(&r, 1, Program::kWorks).bytes;
  EXPECT_EQ(bytes, 130 * kNativePageSize);
}

TEST_F(KeepsTest, BreaksNoneThatWasRefilledAMomentAgo) {
  heap.Give(runs[20 * kPagesPerHugePage]);
  heap.Take({Pages(1)});
  auto parts = Survey(20, 200);
  for (uint32_t s = 0; s < kStoodWorking; ++s) {
    EXPECT_EQ(Release(parts, Program::kWorks), 0u);
    EXPECT_TRUE(kernel.whole(HugePageId(20)));
    Second(Program::kWorks);
    parts = Survey(20, 200);
  }
  EXPECT_EQ(Release(parts, Program::kWorks), 200 * kNativePageSize);
}

TEST_F(KeepsTest, BreaksNoneThatIsRefilledEverySecond) {
  for (int s = 0; s < 10; ++s) {
    heap.Give(runs[20 * kPagesPerHugePage]);
    heap.Take({Pages(1)});
    auto parts = Survey(20, 204);  // 40 %
    EXPECT_EQ(Release(parts, Program::kWorks), 0u);
    Second(Program::kWorks);
  }
  EXPECT_TRUE(kernel.whole(HugePageId(20)));
}

// After a burst a program goes on freeing. For 30 seconds its memory still is in demand.
TEST_F(KeepsTest, BreaksOneThatIsNearlyEmptyThoughItChangesEverySecond) {
  const auto give = [&](size_t hugepage, size_t at) {
    heap.Give(runs[hugepage * kPagesPerHugePage + at]);
  };
  for (size_t h = 4; h < kHugePages; ++h) {
    for (size_t i = 0; i < 200; ++i) give(h, i);
  }
  for (size_t s = 0; s < 40; ++s) {
    for (size_t h = 4; h < kHugePages; ++h) give(h, 200 + s);
    Second(Program::kWorks);
  }
  size_t whole = 0;
  for (size_t h = 4; h < kHugePages; ++h) whole += kernel.whole(HugePageId(h));
  EXPECT_LT(whole, 12u) << "all but the headroom go";
}

TEST_F(KeepsTest, ForgetsWhatAnEarlierSurveyFound) {
  Survey(20, 130);
  auto parts = Survey(21, 130);
  NativeRange old = RangeOf(Idle(20, 32));
  EXPECT_EQ(heap.ReleaseInUse(&old, 1, Program::kWorks).bytes, 0u);
  EXPECT_TRUE(kernel.whole(HugePageId(20)));
}

TEST_F(KeepsTest, CountsFreePagesToo) {
  for (size_t i = 0; i < 50; ++i) heap.Give(runs[20 * kPagesPerHugePage + 128 + i]);
  for (uint32_t s = 0; s < kStoodWorking; ++s) Second(Program::kWorks);
  auto parts = Survey(20, 30);  // with 100 free native pages
  EXPECT_EQ(Release(parts, Program::kWorks), 30 * kNativePageSize);
}

// A survey is of its moment: later the idle pages may be in use.
TEST_F(KeepsTest, ASurveyIsNotRememberedWhenFreePagesGo) {
  Survey(20, 200);
  for (size_t i = 0; i < 8; ++i) heap.Give(runs[20 * kPagesPerHugePage + 200 + i]);
  for (int s = 0; s < 40; ++s) Second(Program::kRests);
  EXPECT_TRUE(kernel.whole(HugePageId(20)));
}

TEST_F(KeepsTest, TakesAnythingWhenMemoryIsShort) {
  NativeRange one = RangeOf(Idle(20, 1));
  EXPECT_EQ(heap.ReleaseInUse(&one, 1, Program::kIsShort).bytes, kNativePageSize);
}

TEST_F(KeepsTest, FreePagesOfWholeHugePagesStayWhileTheyAreFew) {
  for (size_t h = 10; h < 20; ++h) {
    for (size_t i = 0; i < 15; ++i) heap.Give(runs[h * kPagesPerHugePage + i]);
  }
  for (int s = 0; s < 60; ++s) Second(Program::kRests);
  EXPECT_TRUE(kernel.whole(HugePageId(12)));
  EXPECT_GT(heap.ReleaseNow(BytesOf(Pages(150))), 0u);
  EXPECT_FALSE(kernel.whole(HugePageId(12)));
}

TEST_F(KeepsTest, RebuildsNeighboursInOneCall) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);  // what the small heap began with
  for (size_t h = 10; h < 18; ++h) Break(h, 20);
  const size_t calls = kernel.collapse_calls, collapses = kernel.collapses;
  Second(Program::kWorks);
  for (size_t h = 10; h < 18; ++h) EXPECT_TRUE(kernel.whole(HugePageId(h))) << h;
  EXPECT_EQ(kernel.collapses - collapses, 8u);
  EXPECT_EQ(kernel.collapse_calls - calls, 2u);  // the first is rebuilt alone
  EXPECT_EQ(heap.Stats().filler.in_use_released, 0u);
}

TEST_F(KeepsTest, RebuildsNothingAtRestNorWhatLacksMuch) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);
  Break(10, 20);
  for (size_t at : {0, 64}) {
    NativeRange hole = RangeOf(Idle(30, 64));
    hole.offset += at * kNativePageSize;
    heap.ReleaseInUse(&hole, 1, Program::kIsShort);
  }
  for (int s = 0; s < 5; ++s) Second(Program::kRests);
  EXPECT_FALSE(kernel.whole(HugePageId(10)));
  for (int s = 0; s < 5; ++s) Second(Program::kWorks);
  EXPECT_TRUE(kernel.whole(HugePageId(10)));
  EXPECT_FALSE(kernel.whole(HugePageId(30)));
}

TEST_F(KeepsTest, RebuildsForABoundedTimeEachSecond) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);
  for (size_t h = 5; h < 39; ++h) Break(h, 10);
  kernel.collapse_ns = 10'000'000;
  const size_t before = kernel.collapses;
  Second(Program::kWorks);
  EXPECT_GE(kernel.collapses - before, 16u);
  EXPECT_LE(kernel.collapses - before, 28u);
  for (int s = 0; s < 4; ++s) Second(Program::kWorks);
  EXPECT_EQ(kernel.collapses - before, 34u);
}

TEST_F(KeepsTest, HasTheTimeForRebuildingThatItIsGiven) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);
  for (size_t h = 5; h < 39; ++h) Break(h, 10);
  kernel.collapse_ns = 10'000'000;
  heap.SetRebuildTime({50'000'000, 50'000'000});
  const size_t before = kernel.collapses;
  Second(Program::kWorks);
  EXPECT_EQ(kernel.collapses - before, 9u);  // one alone, and neighbours in one call
}

TEST_F(KeepsTest, RebuildsNothingNearTheSoftLimit) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);
  Break(10, 20);
  kernel.soft_limit = kernel.physical_bytes() + (3 << 20);
  heap.CheckSoftLimit();
  Second(Program::kWorks);
  EXPECT_FALSE(kernel.whole(HugePageId(10)));
  kernel.soft_limit = 0;
  heap.CheckSoftLimit();
  Second(Program::kWorks);
  EXPECT_TRUE(kernel.whole(HugePageId(10)));
}

TEST_F(KeepsTest, WhatIsBeingRebuiltCountsUnderTheHardLimit) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);
  BreakFree(10, 8);
  const size_t limit = heap.Stats().backed + BytesOf(Pages(1000));
  heap.SetHardLimit(limit);
  kernel.on_collapse = [&] {
    while (!heap.Take({Pages(1)}).range.empty()) continue;
  };
  Second(Program::kWorks);
  EXPECT_TRUE(kernel.whole(HugePageId(10)));
  EXPECT_LE(heap.Stats().backed, limit);
}

TEST_F(KeepsTest, AChildOfAForkCountsNothingThatItsParentRebuilds) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);
  BreakFree(10, 8);
  kernel.collapse_ns = kernel.populate_ns = 5'000'000;  // so frames are touched ahead, too
  int forks = 0;
  const auto fork_here = [&] {
    ++forks;
    const pid_t pid = fork();
    if (pid == 0) {
      heap.RecoverInChild();
      _exit(heap.Stats().backed == BytesOf(heap.used() + heap.free_backed()) ? 0 : 1);
    }
    int status = -1;
    ASSERT_TRUE(waitpid(pid, &status, 0) == pid && status == 0) << status;
  };
  kernel.on_collapse = kernel.on_populate = fork_here;
  for (int s = 0; s < 2; ++s) Second(Program::kWorks);
  EXPECT_EQ(forks, 16);  // in eight rebuilds, and a touch before each
}

TEST_F(KeepsTest, OneThatCannotBeRebuiltDoesNotKeepItsNeighboursBroken) {
  for (int s = 0; s < 3; ++s) Second(Program::kWorks);
  for (size_t h = 10; h < 14; ++h) Break(h, 20);
  kernel.unmovable = HugePageId(11);
  Second(Program::kWorks);
  for (size_t h : {10, 12, 13}) EXPECT_TRUE(kernel.whole(HugePageId(h))) << h;
  EXPECT_FALSE(kernel.whole(HugePageId(11)));
  EXPECT_EQ(kernel.advice(HugePageId(11)), FakeKernel::Advice::kNoHuge);
}

}  // namespace
}  // namespace strata
