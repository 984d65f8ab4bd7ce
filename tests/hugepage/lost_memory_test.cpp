// What a refused release left unmapped, which may be somebody else's by now.
#include <gtest/gtest.h>

#include "hugepage/releaser.h"
#include "test_tiers.h"

namespace strata {
namespace {

struct LostMemoryTest : test::TestTiers {
  size_t Release(size_t pages) STRATA_REQUIRES(t.lock) {
    return releaser.Release(t, Pages(pages), HugePages(0), Program::kIsShort).raw();
  }

  Releaser<FakeKernel> releaser;
};

TEST_F(LostMemoryTest, OfTheCacheIsGivenToNobody) {
  LockHolder hold(t.lock);
  kernel.lost = AddToCache(1);
  const HugePages free = t.allocator.free();
  kernel.fail_release_in = 0;
  EXPECT_EQ(Release(1), 0u);
  EXPECT_EQ(t.cache.size(), HugePages(0));
  EXPECT_EQ(t.allocator.free(), free);
  EXPECT_EQ(t.in_flight, HugePages(0));
  EXPECT_EQ(t.map[kernel.lost.first].state, HugePageState::kUnmapped);
}

TEST_F(LostMemoryTest, OfARegionIsGivenToNobody) {
  LockHolder hold(t.lock);
  HugeRegion* g = AddRegion(2);
  kernel.lost = {g->range().first, HugePages(1)};
  kernel.fail_release_in = 0;
  EXPECT_EQ(Release(1), 0u);
  EXPECT_FALSE(g->busy());
  EXPECT_EQ(t.regions.free_backed(), Pages(256)) << "the other is as it was";
  EXPECT_EQ(g->TryTake(PagesOf(HugeRegion::kSize)).range.length, Pages(0));
  const PageRange rest = t.regions.Take(g, Pages(511 * 256)).range;
  EXPECT_EQ(HugePageOf(rest.first), kernel.lost.end());
  t.regions.Give(g, rest);
  releaser.DropEmptyRegions(t);
  EXPECT_EQ(t.regions.first(), g) << "its hugepages would be handed out one by one";
}

TEST_F(LostMemoryTest, OfAnEmptyHugePageIsGivenToNobody) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(256);
  t.filler.Change(tracker, [tracker] { tracker->broken = true; });
  t.used -= Pages(256);
  t.filler.Give(tracker, {FirstPage(tracker->page()), Pages(256)});
  kernel.lost = {tracker->page(), HugePages(1)};
  const HugePages free = t.allocator.free();
  kernel.fail_release_in = 0;
  EXPECT_EQ(releaser.ReleaseEmpties(t), Pages(256)) << "it has gone";
  EXPECT_EQ(t.allocator.free(), free);
  EXPECT_FALSE(t.filler.has_empties());
  EXPECT_EQ(t.FreeBacked(), Pages(0));
  EXPECT_EQ(t.map[kernel.lost.first].state, HugePageState::kUnmapped);
}

}  // namespace
}  // namespace strata
