// The page heap's tiers on a fake kernel, filled by hand, for tests of its parts.
#pragma once

#include <gtest/gtest.h>

#include "hugepage/page_tiers.h"
#include "os/fake_kernel.h"
#include "test_arena.h"

namespace strata::test {

struct TestTiers : testing::Test {
  explicit TestTiers(HugePages small_heap = HugePages(0))
      : t(kernel, meta.arena(), {.hugepages = true, .small_heap = small_heap}) {}

  // A hugepage of the filler whose first `used` pages are one run, all of it written.
  HugeTracker* AddToFiller(size_t used) STRATA_REQUIRES(t.lock) {
    const HugeRange fresh = t.allocator.Take(HugePages(1), HugePages(1));
    EXPECT_TRUE(!fresh.empty() && t.filler.Prepare());
    t.cache.NoteTaken(fresh.length, t.CoarseNow());
    HugeTracker* tracker = t.trackers.New();
    tracker->Init(fresh.first, HugeTracker::Memory::kTouched);
    t.map[fresh.first].state = HugePageState::kFiller;
    t.map[fresh.first].tracker = tracker;
    t.filler.Contribute(tracker, {Pages(used)});
    t.used += Pages(used);
    Write(fresh);
    return tracker;
  }

  HugeRange AddToCache(size_t n) STRATA_REQUIRES(t.lock) {
    const HugeRange fresh = t.allocator.Take(HugePages(n), HugePages(1));
    t.cache.NoteTaken(fresh.length, t.CoarseNow());
    t.cache.Give(fresh, t.CoarseNow());
    Write(fresh);
    return fresh;
  }

  // A region of which the first `backed` hugepages have memory and hold nothing.
  HugeRegion* AddRegion(size_t backed) STRATA_REQUIRES(t.lock) {
    HugeRegion* g = t.regions.New();
    const HugeRange r = t.allocator.Take(HugeRegion::kSize, HugePages(1));
    EXPECT_TRUE(g != nullptr && !r.empty());
    t.regions.Add(g, r.first);
    t.map.SetState(r, HugePageState::kRegion);
    for (HugePageId p = r.first; p < r.end(); p += HugePages(1)) t.map[p].region = g;
    if (backed != 0) t.regions.Give(g, t.regions.Take(g, PagesOf(HugePages(backed))).range);
    return g;
  }

  void Write(HugeRange r) {
    for (size_t i = r.first.raw() * kNativePerHugePage; i < r.end().raw() * kNativePerHugePage; ++i)
      kernel.Write(i, 1);
  }

  TestArena meta;
  FakeKernel kernel{HugePages(4096)};
  PageTiers<FakeKernel> t;
};

}  // namespace strata::test
