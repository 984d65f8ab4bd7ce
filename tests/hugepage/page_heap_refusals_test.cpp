// What the page heap does when neither the kernel nor its limit lets it have more: it uses all that
// lies free, however it lies, and a request that cannot be met costs nothing, however often it
// comes.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "hugepage/page_heap.h"
#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

constexpr size_t kMiB = 1 << 20;

struct RefusalsTest : testing::Test {
  PageRun TakeRun(HugePages n, size_t align = 1) {
    return heap.Take({PagesOf(n), align == 1 ? Pages(1) : PagesOf(HugePages(align))});
  }
  PageRange Take(size_t n, size_t align = 1) {
    const PageRange r = TakeRun(HugePages(n), align).range;
    Write(r);
    return r;
  }
  void Write(PageRange r) {
    for (size_t i = r.first.raw() * kNativePerPage; i < r.end().raw() * kNativePerPage; ++i)
      kernel.Write(i, 1);
  }
  // n single hugepages, in the order of their addresses.
  std::vector<PageRange> Singles(size_t n) {
    std::vector<PageRange> runs;
    for (size_t i = 0; i < n; ++i) runs.push_back(Take(1));
    std::ranges::sort(runs, {}, [](PageRange r) { return r.first.raw(); });
    return runs;
  }
  // The first of n is in use, the next cached, and so on.
  void Checker(size_t n) {
    const std::vector<PageRange> runs = Singles(n);
    for (size_t i = 1; i < n; i += 2) heap.Give(runs[i]);
  }
  // A part of each is in use while the rest is given back; then all of it is free.
  void EmptyBrokenHugePages(const std::vector<PageRange>& pages) {
    for (const PageRange& r : pages) heap.Shrink(r, Pages(100));
    heap.ReleaseNow(SIZE_MAX);
    for (const PageRange& r : pages) heap.Give({r.first, Pages(100)});
  }

  test::TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageHeap<FakeKernel> heap{kernel, meta.arena(), {.small_heap = HugePages(4)}};
};

TEST_F(RefusalsTest, WithoutAddressesAVainRequestGivesNothingBack) {
  kernel.map_limit = HugePages(40);
  Checker(40);
  ASSERT_EQ(heap.Stats().cache.hugepages, 20u);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Take(2).empty());
    ASSERT_TRUE(Take(30).empty());
    ASSERT_TRUE(Take(1, 64).empty());
  }
  EXPECT_EQ(kernel.release_calls, 0u);
  EXPECT_EQ(heap.Stats().cache.hugepages, 20u);
}

TEST_F(RefusalsTest, UnderAHardLimitAVainRequestGivesNothingBack) {
  heap.SetHardLimit(64 * kMiB);
  Checker(30);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Take(18).empty()) << "15 are in use";
  EXPECT_EQ(kernel.release_calls, 0u);
  EXPECT_EQ(heap.Stats().hard_failures, 1000u);
  EXPECT_FALSE(Take(17).empty()) << "the limit's last byte";
}

TEST_F(RefusalsTest, UnderAHardLimitARequestTakesWhatItNeedsOfTheCache) {
  heap.SetHardLimit(64 * kMiB);
  Checker(30);
  ASSERT_EQ(heap.Stats().cache.hugepages, 15u);
  EXPECT_FALSE(Take(4).empty());
  EXPECT_GE(heap.Stats().cache.hugepages, 8u);
}

// Under the limit there is room, but another thread takes what was given back for this request.
TEST_F(RefusalsTest, ARequestTriesAgainIfAnotherWasFaster) {
  heap.SetHardLimit(64 * kMiB);
  Checker(30);
  int others = 0;
  kernel.on_release = [&] {
    if (others++ == 0) Take(3);
  };
  EXPECT_FALSE(Take(12).empty());
  EXPECT_GT(others, 1);
}

struct JoinedTest : RefusalsTest {
  JoinedTest() { kernel.map_limit = HugePages(20); }

  // Of 20 hugepages, those from `from` on before `to` are free, by turns unbacked and cached,
  // `each` of a kind.
  void Mix(size_t from, size_t to, size_t each) {
    runs = Singles(20);
    for (size_t i = from; i < to; ++i) {
      if ((i - from) / each % 2 == 0) heap.Give(runs[i]);
    }
    heap.ReleaseNow(SIZE_MAX);
    for (size_t i = from; i < to; ++i) {
      if ((i - from) / each % 2 != 0) heap.Give(runs[i]);
    }
    releases = kernel.release_calls;
  }
  // Nothing was lost and nothing is in two places.
  void ExpectAllCanBeHad() {
    EXPECT_EQ(kernel.release_calls, releases);
    size_t in_use = heap.used().raw() / kPagesPerHugePage;
    for (; !Take(1).empty(); ++in_use) {
    }
    EXPECT_EQ(in_use, 20u);
    EXPECT_EQ(heap.free_backed(), Pages(0));
  }

  std::vector<PageRange> runs;
  size_t releases = 0;
};

TEST_F(JoinedTest, CachedAndUnbackedOnesServeTogetherWithoutGivingBack) {
  for (const size_t each : {1, 2, 3, 8}) {
    SCOPED_TRACE(each);
    Mix(2, 18, each);
    const PageRun run = TakeRun(HugePages(16));
    ASSERT_EQ(run.range.first, runs[2].first);
    EXPECT_FALSE(run.zeroed);
    Write(run.range);
    EXPECT_EQ(heap.used(), Pages(20 * kPagesPerHugePage));
    EXPECT_EQ(kernel.release_calls, releases);
    heap.Give(run.range);
    for (size_t i = 0; i < 20; ++i) {
      if (i < 2 || i >= 18) heap.Give(runs[i]);
    }
  }
}

TEST_F(JoinedTest, OneTooManyIsRefused) {
  Mix(2, 18, 3);
  EXPECT_TRUE(Take(17).empty());
  ExpectAllCanBeHad();
}

TEST_F(JoinedTest, ThePartBehindStaysFree) {
  for (const size_t n : {4, 5, 6, 7, 8}) {
    SCOPED_TRACE(n);
    Mix(0, 9, 3);
    // Around the cached ones if they serve half of it.
    ASSERT_EQ(Take(n).first, runs[n <= 6 ? 3 : 0].first);
    ExpectAllCanBeHad();
    for (const PageRange& r : runs) heap.Give(r);
  }
}

// Where there are addresses enough, a run still lies around a cached range that serves half of it.
struct AroundTest : RefusalsTest {
  AroundTest() {
    runs = Singles(20);
    for (const size_t i : {4, 5, 6, 7, 12, 13}) heap.Give(runs[i]);
    heap.ReleaseNow(SIZE_MAX);
    for (const size_t i : {8, 9, 10, 11}) heap.Give(runs[i]);
    backed = heap.charged_bytes();
  }
  size_t Grown() { return (heap.charged_bytes() - backed) / kHugePageSize; }
  std::vector<PageRange> runs;
  size_t backed;
};

TEST_F(AroundTest, BehindIt) {
  EXPECT_EQ(Take(6).first, runs[8].first);
  EXPECT_EQ(Grown(), 2u);
}

TEST_F(AroundTest, FromBeforeItWhereTheRoomBehindEnds) {
  EXPECT_EQ(Take(8).first, runs[6].first);
  EXPECT_EQ(Grown(), 4u);
}

TEST_F(AroundTest, NotWhereItServesLessThanHalf) {
  EXPECT_GE(Take(9).first, runs[19].end());
  EXPECT_EQ(Grown(), 9u);
}

TEST_F(AroundTest, OneServesHalfOfTwo) {
  for (size_t i = 8; i < 11; ++i) EXPECT_EQ(Take(1).first, runs[i].first);
  EXPECT_EQ(Take(2).first, runs[11].first);
  EXPECT_EQ(Grown(), 1u);
}

TEST_F(AroundTest, NotWhereTheRoomIsTooSmall) {
  EXPECT_EQ(Take(2).first, runs[8].first);  // leaves two
  EXPECT_EQ(Take(2).first, runs[10].first);
  heap.Give(runs[16]);  // between two in use
  EXPECT_EQ(Take(2).first, runs[12].first);
}

TEST_F(AroundTest, NotWhereAlignmentLeadsPastIt) {
  heap.ReleaseNow(SIZE_MAX);
  for (const size_t i : {14, 15, 16, 17}) heap.Give(runs[i]);
  heap.ReleaseNow(SIZE_MAX);
  heap.Give(runs[18]);  // 4 to 18 are free, and only the last is cached
  const PageRun run = TakeRun(HugePages(2), 8);
  EXPECT_TRUE(run.zeroed);
  EXPECT_EQ(heap.Stats().cache.hugepages, 1u);
}

// A large run that is on its way back at its free.
struct DepartingTest : testing::Test {
  static constexpr size_t kLimit = 200;
  DepartingTest() { heap.SetHardLimit(kLimit * kHugePageSize); }
  PageRange TakeHolding(size_t n) {
    LockHolder hold(heap.lock());
    return heap.TakeHolding({PagesOf(HugePages(n)), Pages(1)}).range;
  }
  void GiveHolding(PageRange r) {
    LockHolder hold(heap.lock());
    heap.GiveHolding(r);
  }
  test::TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageHeap<FakeKernel> heap{
      kernel, meta.arena(), {.prompt_release = true, .small_heap = HugePages(4)}};
};

TEST_F(DepartingTest, NearTheLimitItStaysForWhoAsksNext) {
  GiveHolding(TakeHolding(120));
  EXPECT_FALSE(TakeHolding(120).empty());
  heap.ReleaseDue();
  EXPECT_EQ(heap.Stats().hard_failures, 0u);
}

TEST_F(DepartingTest, WhoNeedsItsRoomGivesItBack) {
  const PageRange r = TakeHolding(90);
  GiveHolding(r);
  EXPECT_FALSE(TakeHolding(190).empty());
  EXPECT_EQ(heap.Stats().hard_failures, 0u);
  heap.ReleaseDue();  // nothing is left to do
  EXPECT_EQ(heap.free_backed(), Pages(0));
}

TEST_F(DepartingTest, ThatGivesAllBackIsAskedMeanwhile) {
  GiveHolding(TakeHolding(90));
  EXPECT_EQ(heap.ReleaseNow(SIZE_MAX), 90 * kHugePageSize);
  heap.ReleaseDue();
  EXPECT_EQ(heap.used(), Pages(0));
}

// The first hugepage of the window may lie anywhere.
TEST_F(JoinedTest, AlignedOnesBeginInTheMiddleOfARange) {
  for (const size_t past : {0, 1, 2, 3, 5}) {
    for (const size_t each : {1, 2, 3, 4, 6}) {
      SCOPED_TRACE(past * 100 + each);
      kernel.past = HugePages(past);
      Mix(1, 15, each);
      const PageRange r = Take(8, 4);
      ASSERT_FALSE(r.empty());
      EXPECT_EQ((HugePageOf(r.first).raw() + past) % 4, 0u);
      ExpectAllCanBeHad();
      for (const PageRange& run : runs) heap.Give(run);
    }
  }
}

TEST_F(JoinedTest, AForeignMappingLiesBetweenTwoRanges) {
  kernel.map_limit = HugePages(4096);
  kernel.Occupy({HugePageId(16), HugePages(4080)});
  runs = Singles(16);
  for (size_t i = 0; i < 16; i += 2) heap.Give(runs[i]);
  EXPECT_TRUE(Take(2).empty());
  heap.Give(runs[15]);
  EXPECT_EQ(Take(2).first, runs[14].first);
}

// They become whole hugepages again only if they are given back.
TEST_F(RefusalsTest, EmptiedBrokenHugePagesServeALargeRequest) {
  kernel.map_limit = HugePages(20);
  const std::vector<PageRange> runs = Singles(20);
  EmptyBrokenHugePages({runs.begin() + 4, runs.begin() + 12});
  const size_t releases = kernel.release_calls;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Take(9).empty());
  EXPECT_EQ(kernel.release_calls, releases) << "eight are not enough";
  EXPECT_FALSE(Take(8).empty());
}

// A region holds the addresses of a GiB for runs of awkward lengths.
TEST_F(RefusalsTest, RegionsWithoutRunsServeALargeRequest) {
  std::vector<PageRange> runs;
  while (heap.Stats().region.regions == 0)
    runs.push_back(heap.Take({Pages(kPagesPerHugePage + 1)}).range);
  for (const PageRange& r : runs) heap.Give(r);
  heap.ReleaseNow(SIZE_MAX);
  kernel.map_limit = kernel.mapped();
  EXPECT_FALSE(Take(512).empty());
}

}  // namespace
}  // namespace strata
