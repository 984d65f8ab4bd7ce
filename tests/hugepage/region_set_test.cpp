// RegionSet: which region is picked, and what all of them hold together.
#include "hugepage/region_set.h"

#include <gtest/gtest.h>

#include "test_arena.h"

namespace strata {
namespace {

constexpr Pages kAll = PagesOf(HugeRegion::kSize);

struct RegionSetTest : testing::Test {
  HugeRegion* Add(size_t hugepage) {
    HugeRegion* g = regions.New();
    regions.Add(g, HugePageId(hugepage));
    return g;
  }
  void Expect(size_t used, size_t free_backed) const {
    EXPECT_EQ(regions.used(), Pages(used));
    EXPECT_EQ(regions.free_backed(), Pages(free_backed));
  }

  test::TestArena meta;
  RegionSet regions{meta.arena()};
};

TEST_F(RegionSetTest, FindsTheMostFragmentedThatHasRoom) {
  HugeRegion* a = Add(0);
  HugeRegion* b = Add(512);
  regions.Take(a, Pages(1000));
  EXPECT_EQ(regions.Find(Pages(1)), a);
  regions.Take(b, Pages(2000));
  EXPECT_EQ(regions.Find(Pages(1)), b);
  EXPECT_EQ(regions.Find(kAll - Pages(2000)), b) << "to the last page";
  EXPECT_EQ(regions.Find(kAll - Pages(1999)), a);
  EXPECT_EQ(regions.Find(kAll - Pages(999)), nullptr);
}

TEST_F(RegionSetTest, KeepsBookOfUsedAndBackedPages) {
  HugeRegion* g = Add(0);
  const PageRange run = regions.Take(g, Pages(300)).range;
  Expect(300, 512 - 300);
  EXPECT_TRUE(regions.TryGrow(g, run, Pages(600)));
  Expect(600, 768 - 600);
  EXPECT_FALSE(regions.TryGrow(g, {run.first, Pages(600)}, kAll + Pages(1)));
  Expect(600, 768 - 600);
  regions.Shrink(g, {run.first, Pages(600)}, Pages(100));
  Expect(100, 768 - 100);
  regions.Give(g, {run.first, Pages(100)});
  Expect(0, 768);
}

TEST_F(RegionSetTest, OnlyWhatTheKernelTookIsNoLongerBacked) {
  HugeRegion* g = Add(0);
  regions.Give(g, regions.Take(g, Pages(768)).range);
  HugeRange r = g->DetachForRelease(HugePages(1));
  regions.FinishRelease(g, r, HugeRegion::ReleaseResult::kRefused);
  Expect(0, 768);
  r = g->DetachForRelease(HugePages(1));
  regions.FinishRelease(g, r, HugeRegion::ReleaseResult::kDone);
  Expect(0, 512);
  regions.Remove(g);
  Expect(0, 0);
  regions.Delete(g);
}

}  // namespace
}  // namespace strata
