// HugeCache's limit: it follows how far demand swings within a second, and comes down when it was
// not needed.
#include "hugepage/huge_cache.h"

#include <gtest/gtest.h>

#include "test_arena.h"

namespace strata {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct HugeCacheTest : testing::Test {
  HugeCacheTest() { EXPECT_TRUE(map.Cover({HugePageId(0), HugeLength(1024)})); }

  // A run from the cache, or fresh hugepages from nowhere.
  HugeRange Take(size_t n) {
    HugeRange r = cache.TryTake(HugeLength(n), now);
    if (r.empty()) {
      r = {next, HugeLength(n)};
      next += HugeLength(n);
      cache.NoteTaken(r.length, now);
    }
    map.SetState(r, HugePageState::kLarge);
    return r;
  }

  test::TestArena meta;
  HugePageMap map{meta.arena(), HugeLength(1024)};
  HugeCache cache{map};
  HugePageId next;
  uint64_t now = 1000 * kSecond;
};

TEST_F(HugeCacheTest, StartsAtTenAndGrowthAloneDoesNotRaiseIt) {
  for (int i = 0; i < 20; ++i) Take(10);
  EXPECT_EQ(cache.limit(), HugeLength(10));
  EXPECT_EQ(cache.misses(), 20u);
}

// Usage falls from 100 to 0 and is back at 60 within the second, when a request finds nothing.
TEST_F(HugeCacheTest, DipWithinASecondRaisesItByTheDipAndATenth) {
  const HugeRange big = Take(100);
  now += 5 * kSecond;
  cache.Give(big, now);
  now += kSecond / 10;
  Take(100);
  EXPECT_EQ(cache.limit(), HugeLength(10));  // a hit: nothing was wrong
  cache.Give({big.first, HugeLength(40)}, now);
  now += kSecond / 10;
  Take(50);
  EXPECT_EQ(cache.limit(), HugeLength(66));

  // The 40 lie there unused from now on.
  const size_t limits[] = {66, 46, 26, 10, 10};
  for (size_t limit : limits) {
    EXPECT_EQ(cache.limit(), HugeLength(limit));
    cache.Adjust(now);  // at once again: nothing
    EXPECT_EQ(cache.limit(), HugeLength(limit));
    now += 3 * kSecond;
    cache.Adjust(now);
  }
}

TEST_F(HugeCacheTest, SlowDipDoesNotRaiseIt) {
  const HugeRange big = Take(100);
  now += 5 * kSecond;
  cache.Give(big, now);
  now += 5 * kSecond;
  Take(200);
  EXPECT_EQ(cache.limit(), HugeLength(10));
}

}  // namespace
}  // namespace strata
