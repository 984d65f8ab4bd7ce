// HugeCache's limit: it follows how far demand swings within a second, and comes down when it was
// not needed.
#include "hugepage/huge_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "test_arena.h"

namespace strata {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct HugeCacheTest : testing::Test {
  HugeCacheTest() { EXPECT_TRUE(map.Cover({HugePageId(0), HugePages(1024)})); }

  // A run from the cache, or fresh hugepages from nowhere.
  HugeRange Take(size_t n) {
    HugeRange r = cache.TryTake(HugePages(n), now);
    if (r.empty()) {
      r = {next, HugePages(n)};
      next += HugePages(n);
      cache.NoteTaken(r.length, now);
    }
    map.SetState(r, HugePageState::kLarge);
    return r;
  }

  test::TestArena meta;
  HugePageMap map{meta.arena(), HugePages(1024)};
  HugeCache cache{map};
  HugePageId next;
  uint64_t now = 1000 * kSecond;
};

TEST_F(HugeCacheTest, StartsAtTenAndGrowthAloneDoesNotRaiseIt) {
  for (int i = 0; i < 20; ++i) Take(10);
  EXPECT_EQ(cache.limit(), HugePages(10));
  EXPECT_EQ(cache.misses(), 20u);
}

// Usage falls from 100 to 0 and is back at 60 within the second, when a request finds nothing.
TEST_F(HugeCacheTest, DipWithinASecondRaisesItByTheDipAndATenth) {
  const HugeRange big = Take(100);
  now += 5 * kSecond;
  cache.Give(big, now);
  now += kSecond / 10;
  Take(100);
  EXPECT_EQ(cache.limit(), HugePages(10));  // a hit: nothing was wrong
  cache.Give({big.first, HugePages(40)}, now);
  now += kSecond / 10;
  Take(50);
  EXPECT_EQ(cache.limit(), HugePages(66));

  // The 40 lie there unused from now on.
  const size_t limits[] = {66, 46, 26, 10, 10};
  for (size_t limit : limits) {
    EXPECT_EQ(cache.limit(), HugePages(limit));
    cache.Adjust(now);  // at once again: nothing
    EXPECT_EQ(cache.limit(), HugePages(limit));
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
  EXPECT_EQ(cache.limit(), HugePages(10));
}

// Ranges of one hugepage, which serve no request for more, lie in the cache all the time.
TEST_F(HugeCacheTest, ARaisedLimitStaysForTwoSeconds) {
  std::vector<HugeRange> singles;
  for (int i = 0; i < 40; ++i) singles.push_back(Take(1));
  const HugeRange big = Take(100);
  for (size_t i = 0; i < singles.size(); i += 2) cache.Give(singles[i], now);
  now += 5 * kSecond;
  cache.Give(big, now);
  now += kSecond / 10;
  Take(60);
  Take(120);  // a miss: 60 came back within the second
  ASSERT_EQ(cache.limit(), HugePages(66));
  ASSERT_GE(cache.size(), HugePages(66 / 5));
  for (int i = 0; i < 9; ++i) {
    now += kSecond / 5;
    cache.Adjust(now);
    EXPECT_EQ(cache.limit(), HugePages(66)) << i;
  }
  now += kSecond;
  cache.Adjust(now);
  EXPECT_LT(cache.limit(), HugePages(66));
}

// Raised to 66, with what is left of it in the cache.
struct RaisedHugeCacheTest : HugeCacheTest {
  RaisedHugeCacheTest() {
    big = Take(100);
    now += 5 * kSecond;
    cache.Give(big, now);
    now += kSecond / 10;
    Take(60);
    Take(50);
    EXPECT_EQ(cache.limit(), HugePages(66));
    now += 10 * kSecond;
  }
  HugeRange big;
};

TEST_F(RaisedHugeCacheTest, TheLimitStaysWhereTheCacheWasEmptiedByARequest) {
  ASSERT_EQ(cache.size(), HugePages(40));
  const HugeRange all = Take(40);
  cache.Give(all, now);
  now += kSecond / 2;
  cache.Adjust(now);
  EXPECT_EQ(cache.limit(), HugePages(66));
  now += 5 * kSecond;
  cache.Adjust(now);
  EXPECT_EQ(cache.limit(), HugePages(46));  // unused for two seconds now
}

TEST_F(RaisedHugeCacheTest, TheLimitStaysWhereTheCacheWasEmptiedByARelease) {
  const HugeRange all = cache.TakeForRelease(HugePages(40), now);
  ASSERT_EQ(all.length, HugePages(40));
  cache.PutBack(all, now);
  now += kSecond / 2;
  cache.Adjust(now);
  EXPECT_EQ(cache.limit(), HugePages(66));
}

TEST_F(RaisedHugeCacheTest, TheLimitStaysWhereTheCacheWasEmptiedByGrowth) {
  const HugeRange all =
      cache.TakePart(big.first + HugePages(60), {big.first + HugePages(60), HugePages(40)}, now);
  cache.Give(all, now);
  now += kSecond / 2;
  cache.Adjust(now);
  EXPECT_EQ(cache.limit(), HugePages(66));
}

TEST_F(RaisedHugeCacheTest, AnEmptyCacheLowersNothing) {
  const HugeRange all = cache.TakeForRelease(HugePages(40), now);
  map.SetState(all, HugePageState::kUnmapped);
  for (int i = 0; i < 5; ++i) {
    now += 3 * kSecond;
    cache.Adjust(now);
    EXPECT_EQ(cache.limit(), HugePages(66));
  }
}

// What was given back and taken again at once was no fall for a later request to find.
TEST_F(HugeCacheTest, AFallThatEndedLongAgoDoesNotCount) {
  const HugeRange big = Take(100);
  now += 5 * kSecond;
  cache.Give(big, now);
  Take(100);
  now += 5 * kSecond;
  Take(30);  // growth
  Take(50);
  EXPECT_EQ(cache.limit(), HugePages(10));
}

}  // namespace
}  // namespace strata
