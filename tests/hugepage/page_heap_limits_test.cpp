// The page heap near its limits: growth that outruns every tick stays under the soft limit as long
// as there is anything to give back, and the hard limit is used to its last page.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <vector>

#include "hugepage/page_heap.h"
#include "native_pages.h"
#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

constexpr size_t kMiB = 1 << 20;

struct PageHeapLimitsTest : testing::Test {
  PageRange Take(size_t n) {
    const PageRange r = heap.Take({Pages(n), Pages(1)}).range;
    for (size_t i = r.first.raw() * kNativePerPage; i < r.end().raw() * kNativePerPage; ++i)
      kernel.Write(i, 1);
    most = std::max(most, kernel.physical_bytes());
    return r;
  }
  void Give(PageRange r) { heap.Give(r); }

  test::TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageHeap<FakeKernel> heap{kernel, meta.arena(), {.small_heap = HugePages(4)}};
  size_t most = 0;  // physical memory ever held
};

TEST_F(PageHeapLimitsTest, FarFromALimitTheKernelIsHardlyAsked) {
  for (int i = 0; i < 500; ++i) Take(1);
  EXPECT_EQ(kernel.looks, 0u);  // 4 MiB: not even once
  kernel.soft_limit = 8192 * kMiB;
  for (int i = 0; i < 50'000; ++i) Take(1);
  EXPECT_LE(kernel.looks, 3u);
  EXPECT_EQ(kernel.release_calls, 0u);
  EXPECT_EQ(heap.Stats().soft_hits, 0u);
}

TEST_F(PageHeapLimitsTest, WithoutALimitTheKernelIsAskedOnce) {
  for (int i = 0; i < 50'000; ++i) Take(1);
  EXPECT_EQ(kernel.looks, 1u);
}

// What a batch job does: all of one size goes, and something else wants the memory, with no tick
// between. A demand-driven heap would hold the cache and take more.
TEST_F(PageHeapLimitsTest, ABurstOfAnotherSizeTakesTheMemoryOfTheLast) {
  kernel.soft_limit = 128 * kMiB;
  for (int round = 0; round < 4; ++round) {
    for (const size_t n : {1u, 200u, 3u, 700u, 60u}) {
      std::deque<PageRange> runs;
      size_t pages = 0;
      for (; pages < 100 * kMiB / kPageSize; pages += n) runs.push_back(Take(n));
      for (size_t i = 0; i < runs.size(); i += 2) Give(runs[i]);
      for (size_t i = 1; i < runs.size(); i += 2) Give(runs[i]);
    }
  }
  EXPECT_LE(most, 132 * kMiB);
  EXPECT_GT(heap.Stats().soft_hits, 0u);
}

// Holes in hugepages in use count too.
TEST_F(PageHeapLimitsTest, SparseHugePagesAreBrokenBeforeTheLimit) {
  kernel.soft_limit = 128 * kMiB;
  std::vector<PageRange> runs;
  for (size_t i = 0; i < 96 * kMiB / kPageSize; ++i) runs.push_back(Take(1));
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i % 8 != 0) Give(runs[i]);
  }
  for (int i = 0; i < 12; ++i) Take(1024);  // fits no hole
  EXPECT_LE(most, 132 * kMiB);
  EXPECT_GT(kernel.splits, 0u);
}

// A fork while the kernel is asked: nobody in the child brings the answer.
TEST_F(PageHeapLimitsTest, AChildLooksAtTheSoftLimitItself) {
  kernel.soft_limit = 8192 * kMiB;
  int forks = 0;
  kernel.on_headroom = [&] {
    if (forks++ != 0) return;
    const pid_t pid = fork();
    if (pid == 0) {
      heap.RecoverInChild();
      const size_t looks = kernel.looks;
      for (int i = 0; i < 2000; ++i) Take(1);
      _exit(kernel.looks > looks ? 0 : 1);
    }
    int status = -1;
    ASSERT_TRUE(waitpid(pid, &status, 0) == pid && status == 0) << status;
  };
  while (forks == 0) Take(1);
}

// The soft limit stops nobody.
TEST_F(PageHeapLimitsTest, LiveDataMayPassTheSoftLimit) {
  kernel.soft_limit = 64 * kMiB;
  for (size_t i = 0; i < 100 * kMiB / kPageSize; ++i) ASSERT_FALSE(Take(1).empty());
  EXPECT_GE(most, 100 * kMiB);
  EXPECT_GT(heap.relief_wanted(), 0u);
  EXPECT_LT(kernel.looks, 200u);  // of 12,800 pages
}

// Near the limit a fresh hugepage costs what is touched of it.
TEST_F(PageHeapLimitsTest, NearTheLimitFreshHugePagesComeByPages) {
  kernel.soft_limit = 64 * kMiB;
  std::vector<PageRange> runs;
  while (heap.Stats().soft_hits == 0) runs.push_back(Take(1));
  while (heap.Stats().filler.free != 0) runs.push_back(Take(1));
  const size_t before = kernel.physical_bytes();
  const PageRange one = Take(1);
  EXPECT_EQ(kernel.physical_bytes() - before, kPageSize);
  EXPECT_EQ(kernel.advice(HugePageOf(one.first)), FakeKernel::Advice::kNoHuge);
  // With room again the hugepage that came back is an ordinary one.
  kernel.soft_limit = 1024 * kMiB;
  heap.CheckSoftLimit();
  Give(one);
  for (const PageRange& r : runs) Give(r);
  heap.ReleaseNow(64 * kMiB);
  EXPECT_EQ(kernel.advice(HugePageOf(one.first)), FakeKernel::Advice::kHuge);
}

TEST_F(PageHeapLimitsTest, ALimitLoweredWhileRunningIsKept) {
  std::vector<PageRange> runs;
  for (size_t i = 0; i < 100; ++i) runs.push_back(Take(256));
  for (size_t i = 0; i < 100; i += 2) Give(runs[i]);
  kernel.soft_limit = 120 * kMiB;
  heap.CheckSoftLimit();
  EXPECT_LE(kernel.physical_bytes(), 120 * kMiB);
}

TEST_F(PageHeapLimitsTest, NativePagesTouchedAgainCountAsGrowth) {
  kernel.soft_limit = 64 * kMiB;
  std::vector<PageRange> runs;
  for (size_t i = 0; i < 28 * 128; ++i) runs.push_back(Take(2));  // 56 MiB
  std::vector<NativeRange> gone;
  for (const PageRange& r : runs) gone.push_back({OffsetOf(r.first), kNativePageSize * 2});
  EXPECT_EQ(heap.ReleaseInUse(gone.data(), gone.size(), Program::kIsShort).bytes, 28 * kMiB);
  for (int i = 0; i < 14; ++i) Take(256);
  const size_t before = kernel.looks;
  for (const NativeRange& r : gone) {
    const std::vector<NativePages> pages = test::AsPages(r);
    heap.NoteReused(pages.data(), pages.size());
  }
  EXPECT_GT(kernel.looks, before);
}

// What regions have free serves few; the cache serves anyone.
TEST_F(PageHeapLimitsTest, RegionsGiveBackBeforeABusyProgramsCache) {
  constexpr size_t kAwkward = kPagesPerHugePage + 1;
  std::vector<PageRange> donors, runs;
  while (heap.Stats().region.regions == 0) donors.push_back(Take(kAwkward));
  for (int i = 0; i < 40; ++i) runs.push_back(Take(kAwkward));
  for (const PageRange& r : donors) Give(r);
  for (size_t i = 0; i + 1 < runs.size(); ++i) Give(runs[i]);
  size_t least = SIZE_MAX;
  kernel.on_release = [&] {
    const PageHeapStats s = heap.Stats();
    if (s.region.free > kHugePageSize) least = std::min(least, s.cache.hugepages);
  };
  for (int s = 0; s < 40; ++s) {
    kernel.Advance(1000);
    heap.Tick(CallRate::kBusy, Program::kWorks);
  }
  EXPECT_LT(heap.Stats().region.free, kHugePageSize);
  EXPECT_GE(least, 10u);
}

struct HardLimitTest : PageHeapLimitsTest {
  // Takes runs of n pages until none is to be had. Returns the pages of all.
  size_t Fill(size_t n) {
    size_t pages = 0;
    for (PageRange r; !(r = Take(n)).empty(); pages += n) runs.push_back(r);
    return pages;
  }
  std::vector<PageRange> runs;
};

TEST_F(HardLimitTest, TheLastPageCanBeHadAndNoneBeyondIt) {
  for (const size_t limit : {3 * kMiB, 10 * kMiB + 5 * kPageSize, 63 * kMiB, 64 * kMiB}) {
    heap.SetHardLimit(limit);
    Fill(1);
    EXPECT_EQ(BytesOf(heap.used()), limit);
    EXPECT_EQ(heap.Stats().backed, limit);
    EXPECT_LE(kernel.physical_bytes(), limit);
  }
  EXPECT_EQ(heap.Stats().hard_failures, 4u);
}

TEST_F(HardLimitTest, LargeRunsUseItToTheEndToo) {
  heap.SetHardLimit(64 * kMiB);
  for (const size_t n : {300u, 130u, 100u, 7u, 1u}) Fill(n);
  EXPECT_EQ(heap.used(), Pages(64 * kMiB / kPageSize));
  EXPECT_LE(most, 64 * kMiB);
}

TEST_F(HardLimitTest, OneTooSmallForAPageAllowsNone) {
  heap.SetHardLimit(kPageSize - 1);
  EXPECT_TRUE(Take(1).empty());
  heap.SetHardLimit(kPageSize);
  EXPECT_FALSE(Take(1).empty());
  EXPECT_TRUE(Take(1).empty());
}

TEST_F(HardLimitTest, LoweredBelowWhatIsInUseItLetsNothingGrow) {
  heap.SetHardLimit(64 * kMiB);
  Fill(8);
  heap.SetHardLimit(32 * kMiB);
  EXPECT_TRUE(Take(1).empty());
  while (heap.used() > Pages(31 * kMiB / kPageSize)) {
    Give(runs.back());
    runs.pop_back();
  }
  EXPECT_TRUE(Take(2 * 256).empty());
  EXPECT_LE(heap.Stats().backed, 32 * kMiB);  // it gave back to make room, and that was too little
  EXPECT_FALSE(Take(1).empty());
}

TEST_F(HardLimitTest, RunsGrowInPlaceUpToIt) {
  heap.SetHardLimit(10 * kPageSize);
  PageRange r = Take(5);
  EXPECT_FALSE(heap.TryGrow(r, Pages(11))) << "within its hugepage, of which no more is backed";
  EXPECT_TRUE(heap.TryGrow(r, Pages(10)));
  Give({r.first, Pages(10)});
  heap.ReleaseNow(SIZE_MAX);
  heap.SetHardLimit(3 * kHugePageSize);
  r = Take(256);
  EXPECT_FALSE(heap.TryGrow(r, Pages(4 * 256))) << "over its end";
  EXPECT_TRUE(heap.TryGrow(r, Pages(3 * 256)));
}

TEST_F(HardLimitTest, RegionsKeepIt) {
  PageRange first;
  while (heap.Stats().region.regions == 0) first = Take(257);
  const size_t limit = heap.Stats().backed + 20 * kMiB;
  heap.SetHardLimit(limit);
  EXPECT_FALSE(heap.TryGrow(first, Pages(4000)));
  EXPECT_TRUE(heap.TryGrow(first, Pages(1000)));
  EXPECT_GT(Fill(257), 0u);
  EXPECT_GT(heap.Stats().region.used, BytesOf(Pages(1000)));
  EXPECT_LE(heap.Stats().backed, limit);
}

TEST_F(HardLimitTest, EmptyHugePagesOfWhichPartIsBackedKeepIt) {
  heap.SetHardLimit(10 * kPageSize);
  const PageRange a = Take(5), b = Take(5);
  Give(a);
  Give(b);
  EXPECT_TRUE(Take(11).empty());
  EXPECT_FALSE(Take(10).empty());
}

TEST_F(HardLimitTest, OnlyItsOwnRefusalsAreCounted) {
  heap.SetHardLimit(kMiB);
  EXPECT_TRUE(Take(256).empty());
  EXPECT_EQ(heap.Stats().hard_failures, 1u);
  heap.SetHardLimit(0);
  kernel.map_limit = HugePages(0);
  EXPECT_TRUE(Take(100'000).empty());
  EXPECT_EQ(heap.Stats().hard_failures, 1u) << "the kernel had no memory";
}

// Its visitor asks the kernel about each hugepage: the program must not wait for that.
TEST_F(PageHeapLimitsTest, HugePagesAreVisitedInOrderAndWithoutTheLock) {
  constexpr size_t kMany = 300;
  for (size_t i = 0; i < kMany; ++i) Take(kPagesPerHugePage);
  size_t seen = 0;
  HugePageId last;
  heap.VisitHugePages([&](HugePageId page, size_t used, size_t, char, uint32_t) STRATA_NO_TSA {
    ASSERT_TRUE(heap.lock().TryAcquire());
    heap.lock().Release();
    ASSERT_TRUE(seen == 0 || last < page);
    last = page;
    seen += used == kPagesPerHugePage;
  });
  EXPECT_EQ(seen, kMany);
}

TEST_F(PageHeapLimitsTest, HugePagesKnowHowLongTheyAreInUse) {
  kernel.Advance(1000);
  Take(1);
  kernel.Advance(5000);
  const PageRange r = Take(512);
  kernel.Advance(2000);
  heap.Shrink(r, Pages(300));  // its last hugepage goes to the filler
  std::vector<uint32_t> ages;
  heap.VisitHugePages([&](HugePageId, size_t used, size_t, char, uint32_t age_s) {
    if (used != 0) ages.push_back(age_s);
  });
  EXPECT_EQ(ages, (std::vector<uint32_t>{7, 2, 2}));
}

}  // namespace
}  // namespace strata
