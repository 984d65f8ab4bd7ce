// The policy that shares memory among per-CPU caches, as pure functions: who gives and who gets,
// and, over random histories, what must always hold of a plan.
#include "cache/cache_resizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace strata::test {
namespace {

constexpr ResizeOptions kOptions{size_t{1536} << 10};
constexpr size_t kShare = kOptions.share;

CacheState Busy(uint64_t misses, size_t limit = kShare) { return {limit, limit, misses, true}; }

// Carries a plan out on limits alone; returns what the pool has left.
size_t Apply(const ResizePlan& plan, std::vector<CacheState>& caches, size_t pool) {
  for (size_t t = 0; t < plan.takers; ++t) {
    EXPECT_LE(plan.from_pool[t], pool);
    caches[plan.taker[t]].limit += plan.from_pool[t];
    pool -= plan.from_pool[t];
  }
  for (size_t m = 0; m < plan.moves; ++m) {
    EXPECT_LE(plan.move[m].bytes, caches[plan.move[m].from].limit);
    caches[plan.move[m].from].limit -= plan.move[m].bytes;
    caches[plan.move[m].to].limit += plan.move[m].bytes;
  }
  return pool;
}
size_t Sum(const std::vector<CacheState>& caches, size_t pool) {
  for (const CacheState& c : caches) pool += c.limit;
  return pool;
}

TEST(CacheResizer, SharesFitTheCpuTimeThereIs) {
  EXPECT_EQ(ShareWithin(kShare, 8, 0), kShare);  // no quota
  EXPECT_EQ(ShareWithin(kShare, 2, 2), kShare);
  EXPECT_EQ(ShareWithin(kShare, 8, 2), kShare / 4);
  EXPECT_EQ(ShareWithin(kShare, 100, 1), kOptions.Floor());
  EXPECT_EQ(ShareWithin(0, 8, 2), 0u);
  for (size_t caches = 1; caches <= 64; ++caches) {
    for (size_t cpus = (caches + 7) / 8; cpus <= caches; ++cpus)
      EXPECT_LE(ShareWithin(kShare, caches, cpus) * caches, kShare * cpus);
  }
}

TEST(CacheResizer, TheFiveWithTheMostMissesTakeFromTheOthersInTurn) {
  std::vector<CacheState> caches;
  for (uint64_t i = 0; i < 16; ++i) caches.push_back(Busy(i < 7 ? 100'000 + i : 10));
  const ResizePlan plan = PlanResize(caches.data(), caches.size(), 0, 9, kOptions);
  ASSERT_EQ(plan.takers, 5u);
  for (size_t t = 0; t < 5; ++t) EXPECT_EQ(plan.taker[t], 6 - t);
  // Two donors each, from the ninth on, around the end; 0 and 1 are too needy themselves.
  ASSERT_EQ(plan.moves, 9u);
  for (size_t m = 0; m < plan.moves; ++m) {
    EXPECT_EQ(plan.move[m].from, 9 + m < 16 ? 9 + m : 7 + (9 + m - 16));
    EXPECT_EQ(plan.move[m].bytes, kOptions.Piece());
    EXPECT_EQ(plan.move[m].to, 6 - m / 2);
  }
}

TEST(CacheResizer, WhatIsNobodysGoesFirst) {
  std::vector<CacheState> caches = {Busy(1000), Busy(0)};
  const ResizePlan plan = PlanResize(caches.data(), 2, kShare, 0, kOptions);
  ASSERT_EQ(plan.takers, 1u);
  EXPECT_EQ(plan.from_pool[0], kOptions.Wanted());
  EXPECT_EQ(plan.moves, 0u);
}

TEST(CacheResizer, NobodyTakesWhoHasFewMissesOrUnusedRoom) {
  std::vector<CacheState> caches = {Busy(99), Busy(0), {kShare, kShare / 2, 5000, true}, {}};
  const ResizePlan plan = PlanResize(caches.data(), caches.size(), kShare, 0, kOptions);
  EXPECT_EQ(plan.takers, 0u);
  EXPECT_EQ(PlanResize(nullptr, 0, kShare, 3, kOptions).takers, 0u);
}

TEST(CacheResizer, TheLessNeedyOfTwoGives) {
  std::vector<CacheState> caches = {Busy(700), Busy(1000)};
  ResizePlan plan = PlanResize(caches.data(), 2, 0, 0, kOptions);
  ASSERT_EQ(plan.moves, 1u);
  EXPECT_EQ(plan.move[0].from, 0u);
  EXPECT_EQ(plan.move[0].to, 1u);
  caches[0].misses = 900;  // about the same: they stay as they are
  plan = PlanResize(caches.data(), 2, 0, 0, kOptions);
  EXPECT_EQ(plan.moves, 0u);
}

TEST(CacheResizer, RandomHistoriesKeepTheTotalAndTheFloors) {
  std::mt19937 random(7);
  for (int history = 0; history < 200; ++history) {
    const size_t n = 1 + random() % 40;
    std::vector<CacheState> caches(n);
    for (CacheState& c : caches) c = random() % 5 == 0 ? CacheState{} : Busy(0);
    size_t pool = random() % 3 == 0 ? random() % (4 * kShare) : 0;
    const size_t total = Sum(caches, pool);
    size_t donor = random() % n;
    for (int step = 0; step < 60; ++step) {
      for (CacheState& c : caches) {
        c.misses = c.in_use ? random() % (random() % 2 == 0 ? 200 : 100'000) : 0;
        c.room = random() % 2 == 0 ? c.limit : c.limit / (1 + random() % 4);
      }
      const std::vector<CacheState> before = caches;
      const ResizePlan plan = PlanResize(caches.data(), n, pool, donor, kOptions);
      ASSERT_LT(plan.next_donor, n);
      donor = plan.next_donor;
      pool = Apply(plan, caches, pool);
      ASSERT_EQ(Sum(caches, pool), total);
      for (size_t m = 0; m < plan.moves; ++m) {
        const CacheMove& move = plan.move[m];
        ASSERT_LT(before[move.from].misses, before[move.to].misses);
        ASSERT_GE(caches[move.from].limit, kOptions.Floor());
      }
      for (size_t i = 0; i < n; ++i) {
        ASSERT_GE(caches[i].limit, before[i].in_use ? kOptions.Floor() : 0);
        ASSERT_TRUE(before[i].in_use || caches[i].limit == before[i].limit);
      }
    }
  }
}

// Each cache has a working set; what does not fit misses. Whoever is short comes to have a fair
// part, however rich the others were when it woke up.
TEST(CacheResizer, NoCacheStarvesForEver) {
  std::mt19937 random(3);
  for (int history = 0; history < 50; ++history) {
    const size_t n = 2 + random() % 24;
    std::vector<CacheState> caches(n, Busy(0));
    const size_t hungry = random() % n;
    size_t pool = 0;
    for (size_t i = 0; i < n; ++i) {  // the others have taken all they could
      if (i == hungry) continue;
      const size_t part = (kShare - kOptions.Floor()) / (n - 1);
      caches[i].limit += part;
      caches[hungry].limit -= part;
    }
    size_t donor = 0;
    int steps = 0;
    for (; caches[hungry].limit < kShare / 2 && steps < 500; ++steps) {
      for (size_t i = 0; i < n; ++i) {
        const size_t wants = i == hungry ? 2 * kShare : 2 * kShare - kShare / 8 * (random() % 3);
        caches[i].room = std::min(caches[i].limit, wants);
        caches[i].misses = (wants - caches[i].room) / 64;
      }
      const ResizePlan plan = PlanResize(caches.data(), n, pool, donor, kOptions);
      donor = plan.next_donor;
      pool = Apply(plan, caches, pool);
    }
    EXPECT_LT(steps, 500) << n;
  }
}

TEST(CacheResizer, LargerClassesThatDidNotMissGiveFirst) {
  ClassRoom classes[] = {{64, 100, 0, false}, {1024, 20, 0, true}, {4096, 4, 0, false}};
  PlanShrink(classes, 3, 4096);
  EXPECT_EQ(classes[2].keep, 3u);
  EXPECT_EQ(classes[1].keep, 20u);
  EXPECT_EQ(classes[0].keep, 100u);
  PlanShrink(classes, 3, 4 * 4096 + 64);
  EXPECT_EQ(classes[2].keep, 0u);
  EXPECT_EQ(classes[1].keep, 20u);
  EXPECT_EQ(classes[0].keep, 99u);
  PlanShrink(classes, 3, 4 * 4096 + 6400 + 10 * 1024);  // half of what missed
  EXPECT_EQ(classes[1].keep, 10u);
  EXPECT_EQ(classes[0].keep, 0u);
  PlanShrink(classes, 3, SIZE_MAX / 2);
  for (const ClassRoom& c : classes) EXPECT_EQ(c.keep, 0u);
}

TEST(CacheResizer, AShrinkFreesWhatIsAskedAndLittleMore) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    std::vector<ClassRoom> classes(1 + random() % 30);
    uint32_t size = 0;
    size_t all = 0;
    for (ClassRoom& c : classes) {
      size += 8 + random() % 500;
      c = {size, static_cast<uint32_t>(random() % 50), 0, random() % 2 == 0};
      all += size_t{c.room} * c.size;
    }
    const size_t bytes = random() % (all + all / 4 + 1);
    PlanShrink(classes.data(), classes.size(), bytes);
    size_t freed = 0;
    for (const ClassRoom& c : classes) {
      ASSERT_LE(c.keep, c.room);
      freed += size_t{c.room - c.keep} * c.size;
    }
    ASSERT_GE(freed, std::min(bytes, all));
    ASSERT_LT(freed, bytes + classes.back().size);
  }
}

}  // namespace
}  // namespace strata::test
