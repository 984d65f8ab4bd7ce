// LentPages on a page heap: what it takes from it, what it keeps, and what goes back with what lies
// in it. Who borrows, and when, is in tests/heaps/lent_pages_test.cpp.
#include "hugepage/lent_pages.h"

#include <gtest/gtest.h>

#include <vector>

#include "hugepage/page_heap.h"
#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata {
namespace {

struct LentPagesTest : testing::Test {
  void Lend() {
    HugeTracker* fresh = heap.Lend(1);
    ASSERT_TRUE(fresh != nullptr && lent.Prepare());
    lent.Add(fresh);
  }
  PageRange Take(size_t n) {
    PageRange r = lent.TryTake({Pages(n)}).range;
    if (r.empty()) {
      Lend();
      r = lent.TryTake({Pages(n)}).range;
    }
    EXPECT_EQ(r.length, Pages(n));
    return r;
  }
  // All of a lent hugepage counts as used.
  void Expect(size_t hugepages, size_t spare) const {
    EXPECT_EQ(lent.hugepages(), hugepages);
    EXPECT_EQ(lent.spare(), spare);
    EXPECT_EQ(heap.used(), PagesOf(HugePages(hugepages)));
  }

  test::TestArena meta;
  FakeKernel kernel{HugePages(64)};
  PageHeap<FakeKernel> heap{kernel, meta.arena(), {}};
  LentPages<PageHeap<FakeKernel>> lent{heap, meta.arena()};
};

TEST_F(LentPagesTest, WantsAHugePageWhenThereIsNoRoom) {
  EXPECT_TRUE(lent.TryTake({Pages(1)}).range.empty());
  Lend();
  Expect(1, 1);
  Take(200);
  Expect(1, 0);
  EXPECT_TRUE(lent.TryTake({Pages(57)}).range.empty());
  EXPECT_EQ(lent.TryTake({Pages(56)}).range.length, Pages(56));
  Expect(1, 0);
}

TEST_F(LentPagesTest, OneThatFallsEmptyAgainAndAgainStays) {
  for (int i = 0; i < 3; ++i) {
    lent.Give(Take(200));
    Expect(1, 1);
  }
}

TEST_F(LentPagesTest, ManyThatFallEmptyGoBackButForTwoAndAQuarterOfTheUsed) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 16; ++i) runs.push_back(Take(255));
  const auto give = [&](size_t n) {
    for (; n != 0; --n) {
      lent.Give(runs.back());
      runs.pop_back();
    }
  };
  give(8);
  Expect(8 + 4, 4);
  give(8);
  Expect(4, 4);
}

TEST_F(LentPagesTest, ReturnsEmptyOnesFirstAndTheOthersWithTheirRuns) {
  std::vector<PageRange> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(Take(200));
  lent.Give(runs.back());
  runs.pop_back();
  Expect(4, 1);
  EXPECT_TRUE(lent.ReturnSome(1));
  Expect(3, 0);
  EXPECT_TRUE(lent.ReturnSome(1));
  EXPECT_EQ(lent.hugepages(), 2u);
  EXPECT_EQ(heap.used(), PagesOf(HugePages(2)) + Pages(200));
  EXPECT_FALSE(lent.ReturnSome(10));
  EXPECT_EQ(lent.hugepages(), 0u);
  EXPECT_EQ(heap.used(), Pages(600));
  for (const PageRange& r : runs) heap.Give(r);
  EXPECT_EQ(heap.used(), Pages(0));
}

TEST_F(LentPagesTest, RunsGrowToTheEndOfTheirHugePageAndShrink) {
  const PageRange r = Take(100);
  EXPECT_FALSE(lent.TryGrow(r, Pages(257)));
  EXPECT_TRUE(lent.TryGrow(r, Pages(256)));
  EXPECT_TRUE(lent.TryTake({Pages(1)}).range.empty());
  lent.Shrink({r.first, Pages(256)}, Pages(10));
  EXPECT_EQ(lent.TryTake({Pages(246)}).range.first, r.first + Pages(10));
  Expect(1, 0);
}

}  // namespace
}  // namespace strata
