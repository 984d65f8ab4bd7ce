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

CacheState Busy(uint64_t misses, size_t limit = kShare) {
  return {.limit = limit, .room = limit, .misses = misses, .in_use = true};
}
CacheState Resting(size_t limit) { return {.limit = limit, .in_use = true, .rests = true}; }
CacheState Awake(size_t limit) {
  return {.limit = limit, .room = limit, .in_use = true, .woke = true};
}

struct Caches : std::vector<CacheState> {
  using vector::vector;

  size_t Plan(LimitRound round, size_t next_donor = 0) {
    return PlanLimits(data(), size(), round, next_donor, kOptions);
  }
  void CarryOut() {
    for (CacheState& c : *this) c.limit = c.target;
  }
  size_t Total() const {
    return kShare * static_cast<size_t>(std::count_if(
                        begin(), end(), [](const CacheState& c) { return c.in_use; }));
  }
  size_t Limits() const {
    return std::accumulate(begin(), end(), size_t{0},
                           [](size_t sum, const CacheState& c) { return sum + c.limit; });
  }
  size_t Targets() const {
    return std::accumulate(begin(), end(), size_t{0},
                           [](size_t sum, const CacheState& c) { return sum + c.target; });
  }
};

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
  Caches caches;
  for (uint64_t i = 0; i < 16; ++i) caches.push_back(Busy(i < 7 ? 100'000 + i : 10));
  // Two donors each for five takers, from the ninth on and around the end; 0 and 1 are too needy
  // to give and not needy enough to take. There are nine donors.
  EXPECT_EQ(caches.Plan(LimitRound::kNeed, 9), 8u);
  for (size_t i = 0; i < 16; ++i) {
    const size_t got = i == 2 ? kOptions.Piece() : kOptions.Wanted();
    const size_t target = i < 2 ? kShare : i < 7 ? kShare + got : kShare - kOptions.Piece();
    EXPECT_EQ(caches[i].target, target) << i;
  }
}

TEST(CacheResizer, TheRoundOfDonorsGoesOnWhereItStopped) {
  Caches caches = {Busy(1000), Busy(0), Busy(0), Busy(0)};
  EXPECT_EQ(caches.Plan(LimitRound::kNeed, 3), 2u);  // 3, the taker, 1
  EXPECT_LT(caches[3].target, kShare);
  EXPECT_LT(caches[1].target, kShare);
  EXPECT_EQ(caches[2].target, kShare);
}

TEST(CacheResizer, WhatIsNobodysGoesFirst) {
  Caches caches = {Busy(1000), Busy(0), Busy(0, 0)};
  caches.Plan(LimitRound::kNeed);
  EXPECT_EQ(caches[0].target, kShare + kOptions.Wanted());
  EXPECT_EQ(caches[1].target, kShare);
  EXPECT_EQ(caches[2].target, 0u);
}

TEST(CacheResizer, NobodyTakesWhoHasFewMissesOrUnusedRoom) {
  Caches caches = {Busy(99), Busy(0), Busy(5000), {}};
  caches[2].room = kShare / 2;
  caches.Plan(LimitRound::kNeed);
  for (const CacheState& c : caches) EXPECT_EQ(c.target, c.limit);
  EXPECT_EQ(PlanLimits(nullptr, 0, LimitRound::kNeed, 3, kOptions), 0u);
}

// Objects rarely fill a limit to its last byte.
TEST(CacheResizer, NearlyFullIsFull) {
  EXPECT_TRUE(IsFull(90, 100));
  EXPECT_FALSE(IsFull(80, 100));
}

TEST(CacheResizer, WhoHasLessThanTheFloorGivesNothing) {
  const size_t little = kOptions.Floor() / 2;
  Caches caches = {Busy(1000, 2 * kShare - little), Busy(0, little)};
  caches.Plan(LimitRound::kNeed);
  EXPECT_EQ(caches[1].target, little);
}

TEST(CacheResizer, TheLessNeedyOfTwoGives) {
  Caches caches = {Busy(700), Busy(1000)};
  caches.Plan(LimitRound::kNeed);
  EXPECT_EQ(caches[0].target, kShare - kOptions.Piece());
  EXPECT_EQ(caches[1].target, kShare + kOptions.Piece());
  caches[0].misses = 900;  // about the same: they stay as they are
  caches.Plan(LimitRound::kNeed);
  EXPECT_EQ(caches[0].target, kShare);
  EXPECT_EQ(caches[1].target, kShare);
}

TEST(CacheResizer, WhoGaveToANeedierOneTakesNothing) {
  Caches caches = {Busy(1000), Busy(700), Busy(0), Busy(0)};
  caches.Plan(LimitRound::kNeed, 1);
  EXPECT_EQ(caches[0].target, kShare + kOptions.Wanted());
  EXPECT_EQ(caches[1].target, kShare - kOptions.Piece());
  EXPECT_EQ(caches[2].target, kShare - kOptions.Piece());
  EXPECT_EQ(caches[3].target, kShare);
}

TEST(CacheResizer, SoManyGiveInOneRoundAndNoMore) {
  Caches caches(40, Busy(0, kOptions.Floor() + 100));
  caches[0] = Busy(1000, 40 * kShare - 39 * (kOptions.Floor() + 100));  // nothing is free
  caches.Plan(LimitRound::kNeed);
  EXPECT_EQ(std::count_if(caches.begin(), caches.end(),
                          [](const CacheState& c) { return c.target < c.limit; }),
            20);
}

TEST(CacheResizer, NeedCountsInItsOwnRoundsOnly) {
  Caches caches = {Busy(1'000'000), Busy(0)};
  EXPECT_EQ(caches.Plan(LimitRound::kRest, 1), 1u);
  for (const CacheState& c : caches) EXPECT_EQ(c.target, kShare);
}

TEST(CacheResizer, WhoRestsKeepsTheFloorAndNothingElseMoves) {
  Caches caches = {Resting(kShare), Busy(0), Resting(kOptions.Floor() / 2), Resting(2 * kShare)};
  caches.Plan(LimitRound::kRest);
  EXPECT_EQ(caches[0].target, kOptions.Floor());
  EXPECT_EQ(caches[1].target, kShare);
  EXPECT_EQ(caches[2].target, kOptions.Floor() / 2);
  EXPECT_EQ(caches[3].target, kOptions.Floor());
}

TEST(CacheResizer, WhatOneThatRestsGivesUpGoesToTheNeediestAtOnce) {
  Caches caches = {Busy(1000), Resting(kShare)};
  caches.Plan(LimitRound::kNeed);
  EXPECT_EQ(caches[0].target, kShare + kOptions.Wanted());
  EXPECT_EQ(caches[1].target, kOptions.Floor());
}

TEST(CacheResizer, WhoWokeHasAShareFromThoseThatHaveMore) {
  const size_t floor = kOptions.Floor();
  const size_t lent = kShare - floor;
  Caches caches = {Busy(0, kShare + lent / 2), Awake(floor), Busy(0, kShare - floor),
                   Busy(0, kShare + lent - lent / 2 + floor)};
  ASSERT_EQ(caches.Limits(), caches.Total());
  caches.Plan(LimitRound::kRest);
  EXPECT_EQ(caches[1].target, kShare);
  EXPECT_EQ(caches[0].target, kShare);          // the first that has more gives all of it
  EXPECT_EQ(caches[2].target, kShare - floor);  // has less itself
  EXPECT_EQ(caches[3].target, kShare + floor);
  // What is nobody's goes first.
  caches[0].limit = kShare;
  caches.Plan(LimitRound::kRest);
  EXPECT_EQ(caches[1].target, kShare);
  EXPECT_EQ(caches[3].target, kShare + lent - lent / 2 + floor - (lent - lent / 2));
}

TEST(CacheResizer, WhoWokeGetsAShareOnce) {
  Caches caches = {Awake(kOptions.Floor()), Busy(0), Resting(kShare), Awake(2 * kShare)};
  caches[0].misses = 1000;
  caches.Plan(LimitRound::kNeed);
  EXPECT_EQ(caches[0].target, kShare);
  EXPECT_EQ(caches[1].target, kShare);
  caches[0].limit = kShare;
  caches[3].limit = kShare + 1000;
  caches.Plan(LimitRound::kRest);
  EXPECT_EQ(caches[3].target, kShare + 1000);
}

TEST(CacheResizer, LimitsAboveTheTotalLeaveNothingToTake) {
  Caches caches = {Busy(1000, 3 * kShare), Awake(kOptions.Floor())};
  caches[0].room = 0;
  caches.Plan(LimitRound::kRest);
  EXPECT_EQ(caches.Targets(), caches.Limits());
  EXPECT_EQ(caches[1].target, kShare);
}

TEST(CacheResizer, RandomHistoriesKeepTheTotalAndTheFloors) {
  std::mt19937 random(7);
  for (int history = 0; history < 200; ++history) {
    const size_t n = 1 + random() % 40;
    Caches caches(n);
    for (CacheState& c : caches) c = random() % 5 == 0 ? CacheState{} : Busy(0);
    size_t donor = random() % n;
    for (int step = 0; step < 60; ++step) {
      for (CacheState& c : caches) {
        if (!c.in_use) continue;
        c.misses = random() % (random() % 2 == 0 ? 200 : 100'000);
        c.room = random() % 2 == 0 ? c.limit : c.limit / (1 + random() % 4);
        const bool rested = c.rests;
        c.rests = random() % 8 == 0;
        c.woke = rested && !c.rests;
        if (c.rests) c.room = c.misses = 0;
      }
      const LimitRound round = random() % 2 == 0 ? LimitRound::kNeed : LimitRound::kRest;
      donor = caches.Plan(round, donor);
      ASSERT_LT(donor, n);
      ASSERT_LE(caches.Targets(), caches.Total());
      for (const CacheState& c : caches) {
        ASSERT_EQ(c.in_use, c.target != 0);
        ASSERT_TRUE(!c.in_use || c.target >= kOptions.Floor());
        ASSERT_TRUE(!c.rests || c.target == kOptions.Floor());
        ASSERT_TRUE(c.target <= c.limit || !c.rests);
        ASSERT_LE(c.target, std::max(c.limit, kShare) + kOptions.Wanted());
      }
      caches.CarryOut();
    }
  }
}

// Each cache has a working set; what does not fit misses. Whoever is short comes to have a fair
// part, however rich the others were when it woke up.
TEST(CacheResizer, NoCacheStarvesForEver) {
  std::mt19937 random(3);
  for (int history = 0; history < 50; ++history) {
    const size_t n = 2 + random() % 24;
    Caches caches(n, Busy(0));
    const size_t hungry = random() % n;
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
      donor = caches.Plan(LimitRound::kNeed, donor);
      caches.CarryOut();
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
