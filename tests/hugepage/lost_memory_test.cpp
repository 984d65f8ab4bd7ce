// What a refused release left unmapped, which may be somebody else's by now.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hugepage/releaser.h"
#include "test_tiers.h"

namespace strata {
namespace {

struct LostMemoryTest : test::TestTiers {
  size_t Release(size_t pages) STRATA_REQUIRES(t.lock) {
    return releaser.Release(t, Pages(pages), HugePages(0), Program::kIsShort).raw();
  }

  // In a child that is forked when the kernel has lost the range, and the parent does not know yet.
  template <class F>
  void InChild(HugeRange lost, F is_right) STRATA_NO_TSA {
    kernel.fail_release_in = 0;
    kernel.on_release = [this, lost, is_right]() STRATA_NO_TSA {
      const pid_t pid = fork();
      if (pid == 0) {
        LockHolder hold(t.lock);
        kernel.lost = lost;
        releaser.Recover(t);
        _exit(is_right() && t.in_flight == HugePages(0) ? 0 : 1);
      }
      int status = -1;
      EXPECT_TRUE(waitpid(pid, &status, 0) == pid && status == 0) << status;
      ++forks;
    };
  }

  Releaser<FakeKernel> releaser;
  int forks = 0;
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

TEST_F(LostMemoryTest, IsHandedOutByNoChild) {
  LockHolder hold(t.lock);
  const HugeRange cached = AddToCache(1);
  const HugePages free = t.allocator.free();
  InChild(cached, [this, free]() STRATA_NO_TSA {
    return t.cache.size() == HugePages(0) && t.allocator.free() == free;
  });
  Release(1);
  EXPECT_EQ(forks, 1);
}

TEST_F(LostMemoryTest, OfARegionIsHandedOutByNoChild) {
  LockHolder hold(t.lock);
  HugeRegion* g = AddRegion(2);
  InChild({g->range().first, HugePages(1)}, [this, g]() STRATA_NO_TSA {
    return !g->busy() && t.regions.free_backed() == Pages(256) &&
           g->TryTake(PagesOf(HugeRegion::kSize)).range.length == Pages(0);
  });
  Release(512);
  EXPECT_EQ(forks, 1);
}

TEST_F(LostMemoryTest, OfAnEmptyHugePageIsHandedOutByNoChild) {
  LockHolder hold(t.lock);
  HugeTracker* tracker = AddToFiller(256);
  t.filler.Change(tracker, [tracker] { tracker->broken = true; });
  t.used -= Pages(256);
  t.filler.Give(tracker, {FirstPage(tracker->page()), Pages(256)});
  const HugePages free = t.allocator.free();
  InChild({tracker->page(), HugePages(1)}, [this, free]() STRATA_NO_TSA {
    return t.allocator.free() == free && !t.filler.has_empties() && t.FreeBacked() == Pages(0);
  });
  releaser.ReleaseEmpties(t);
  EXPECT_EQ(forks, 1);
}

}  // namespace
}  // namespace strata
