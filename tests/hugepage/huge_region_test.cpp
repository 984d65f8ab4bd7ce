// HugeRegion: releases under way, one after another and all at once in a forked child.
// What is taken, grown and given back: huge_region_program_test.cpp.
#include "hugepage/huge_region.h"

#include <gtest/gtest.h>

#include <memory>

namespace strata {
namespace {

constexpr HugePageId kFirst{512};

struct HugeRegionTest : testing::Test {
  HugeRegionTest() { region->Init(kFirst); }
  PageRange Take(size_t pages) {
    const PageRun run = region->TryTake(Pages(pages));
    EXPECT_EQ(run.range.length, Pages(pages));
    return run.range;
  }
  std::unique_ptr<HugeRegion> region = std::make_unique<HugeRegion>();
};

TEST_F(HugeRegionTest, WhatIsBeingReleasedIsNotDetachedAgain) {
  const PageRange run = Take(10 * kPagesPerHugePage);
  region->Give(run);
  const HugeRange one = region->DetachForRelease(HugePages(4));
  const HugeRange two = region->DetachForRelease(HugePages(4));
  const HugeRange three = region->DetachForRelease(HugePages(4));
  EXPECT_EQ(one, (HugeRange{kFirst, HugePages(4)}));
  EXPECT_EQ(two, (HugeRange{kFirst + HugePages(4), HugePages(4)}));
  EXPECT_EQ(three, (HugeRange{kFirst + HugePages(8), HugePages(2)}));
  EXPECT_TRUE(region->DetachForRelease(HugePages(4)).empty());
  region->FinishRelease(two, HugeRegion::ReleaseResult::kDone);
  EXPECT_TRUE(region->busy());
  EXPECT_TRUE(region->DetachForRelease(HugePages(4)).empty());
  region->FinishRelease(one, HugeRegion::ReleaseResult::kRefused);  // refused: there again
  EXPECT_EQ(region->DetachForRelease(HugePages(9)), one);
  region->FinishRelease(one, HugeRegion::ReleaseResult::kDone);
  region->FinishRelease(three, HugeRegion::ReleaseResult::kDone);
  EXPECT_FALSE(region->busy());
  EXPECT_EQ(region->backed(), Pages(0));
}

TEST_F(HugeRegionTest, AllThatIsBeingReleasedIsFound) {
  const PageRange first = Take(2 * kPagesPerHugePage);
  const PageRange between = Take(kPagesPerHugePage);
  const PageRange last = Take(3 * kPagesPerHugePage);
  region->Give(first);
  region->Give(last);
  ASSERT_EQ(region->DetachForRelease(HugePages(9)).length, HugePages(2));
  ASSERT_EQ(region->DetachForRelease(HugePages(9)).length, HugePages(3));
  for (HugeRange r = region->FirstBusy(); !r.empty(); r = region->FirstBusy())
    region->FinishRelease(r, HugeRegion::ReleaseResult::kRefused);
  EXPECT_FALSE(region->busy());
  EXPECT_EQ(region->backed(), PagesOf(HugePages(6)));  // nothing was given back
  EXPECT_EQ(region->free_backed(), PagesOf(HugePages(5)));
  region->Give(between);
  EXPECT_EQ(region->longest(), PagesOf(HugeRegion::kSize).raw());
}

TEST_F(HugeRegionTest, NothingGrowsPastTheEnd) {
  Take(PagesOf(HugeRegion::kSize).raw() - 8);
  const PageRange last = Take(5);
  EXPECT_FALSE(region->TryGrow(last, Pages(9)));
  EXPECT_TRUE(region->TryGrow(last, Pages(8)));
  EXPECT_EQ(region->longest(), 0u);
}

}  // namespace
}  // namespace strata
