// The order in which hugepages are rebuilt, and that the first ones are kept whatever comes.
#include "hugepage/rebuild_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace strata {
namespace {

TEST(RebuildOrder, TheHottestThenThoseThatLackLeast) {
  const RebuildCandidate hot{HugePageId(1), 7, 30}, cold{HugePageId(2), 6, 1},
      full{HugePageId(3), 7, 29};
  EXPECT_TRUE(RebuildsBefore(hot, cold));
  EXPECT_FALSE(RebuildsBefore(cold, hot));
  EXPECT_TRUE(RebuildsBefore(full, hot));
  EXPECT_FALSE(RebuildsBefore(hot, full));
  EXPECT_FALSE(RebuildsBefore(hot, hot));
}

std::vector<size_t> TakeAll(RebuildOrder& order) {
  std::vector<size_t> pages;
  while (!order.empty()) pages.push_back(order.TakeFirst().page.raw());
  return pages;
}

TEST(RebuildOrder, KeepsTheFirstOfManyAsASortWould) {
  std::mt19937 random(7);
  for (size_t n = 0; n < 3 * RebuildOrder::kMost; ++n) {
    std::vector<RebuildCandidate> all;
    RebuildOrder order;
    for (size_t i = 0; i < n; ++i) {
      // All of them different, so that there is one order only.
      all.push_back({HugePageId(i), static_cast<uint32_t>(random() % 5),
                     static_cast<uint32_t>(1000 * (random() % 5) + i)});
      order.Offer(all.back());
    }
    std::sort(all.begin(), all.end(), RebuildsBefore);
    std::vector<size_t> first;
    for (size_t i = 0; i < std::min(n, RebuildOrder::kMost); ++i)
      first.push_back(all[i].page.raw());
    ASSERT_EQ(TakeAll(order), first) << n;
  }
}

TEST(RebuildOrder, OfEqualsTheFirstOfferedStays) {
  RebuildOrder order;
  for (size_t i = 0; i <= RebuildOrder::kMost; ++i) order.Offer({HugePageId(i), 1, 1});
  const std::vector<size_t> pages = TakeAll(order);
  ASSERT_EQ(pages.size(), RebuildOrder::kMost);
  EXPECT_EQ(pages.front(), 0u);
  EXPECT_EQ(pages.back(), RebuildOrder::kMost - 1);
}

}  // namespace
}  // namespace strata
