// Limits that move between vCPUs, over a drain that the test makes succeed or refuse: who rests,
// who wakes, what is shared out, and that limits and pool are within the total at every step.
#include "cache/limit_sharing.h"

#include <gtest/gtest.h>

#include <functional>

#include "fake_vcpus.h"

namespace strata::test {
namespace {

constexpr size_t kShare = 1 << 20;
constexpr size_t kFloor = kShare / 8;

// Takes what it is asked for without touching a slab.
struct FakeDrain {
  size_t Drain(Vcpu& v) STRATA_EXCLUDES(v.lock) {
    LockHolder hold(v.lock);
    ++drains;
    const size_t bytes = refuse ? 0 : v.room();
    v.DropRoom(bytes);
    return bytes;
  }
  bool LowerLimit(Vcpu& v, size_t limit) STRATA_REQUIRES(v.lock) {
    if (on_lower) on_lower();
    if (v.room() > limit && refuse) return false;
    if (v.room() > limit) v.DropRoom(v.room() - limit);
    v.SetLimit(limit);
    return true;
  }
  void DropIdleClasses(Vcpu&) { ++drops; }

  bool refuse = false;
  size_t drains = 0;
  size_t drops = 0;
  std::function<void()> on_lower;
};

class LimitSharingTest : public testing::Test {
 protected:
  LimitSharingTest() {
    f_.pool.SetShare(kShare);
    EXPECT_TRUE(
        sharing_.Init(&f_.table, &f_.pool, &drain_, &f_.memory.arena(), CacheSizing::kByMisses));
    for (size_t i = 0; i < kCpus; ++i) f_.Use(i, kShare);
  }
  Vcpu& Cpu(size_t i) { return *f_.table.Find(i); }
  size_t Limit(size_t i) { return Cpu(i).limit(); }
  void Fill(size_t i, size_t bytes) {
    LockHolder hold(Cpu(i).lock);
    Cpu(i).AddRoom(bytes - Cpu(i).room());
  }
  void Use(size_t i) { ++Cpu(i).slab().header(ClassOfSize(8)).word; }
  void Miss(size_t i, int times) {
    for (int n = 0; n < times; ++n) Cpu(i).misses.NoteAlloc(ClassOfSize(8));
  }
  // All other vCPUs stay in use.
  void Rest(size_t i) {
    Fill(i, kShare / 2);
    for (int tick = 0; tick < 2; ++tick) {
      for (size_t other = 0; other < kCpus; ++other) {
        if (other != i) Use(other);
      }
      for (Vcpu& v : f_.table) sharing_.DrainIfIdle(v, 1);
    }
    sharing_.MoveLimits(LimitRound::kRest);
  }
  size_t Sum() {
    size_t sum = f_.pool.bytes();
    for (const Vcpu& v : f_.table) sum += v.limit();
    return sum;
  }

  static constexpr size_t kCpus = 3;
  FakeVcpus f_{kCpus + 1};
  FakeDrain drain_;
  LimitSharing<FakeDrain> sharing_;
};

TEST_F(LimitSharingTest, OneThatRestsIsDrainedAndLendsAllButTheFloor) {
  Rest(0);
  EXPECT_EQ(drain_.drains, 1u);
  EXPECT_EQ(Cpu(0).room(), 0u);
  EXPECT_EQ(Limit(0), kFloor);
  EXPECT_EQ(f_.pool.bytes(), kShare - kFloor);
  EXPECT_EQ(Sum(), kCpus * kShare);
}

TEST_F(LimitSharingTest, TheLastVcpuLendsToo) {
  f_.Use(kCpus, kShare);
  Rest(kCpus);
  EXPECT_EQ(Limit(kCpus), kFloor);
}

TEST_F(LimitSharingTest, ItsPartComesBackFromThePoolWhenItHasFilledTheFloor) {
  Rest(0);
  Fill(0, kFloor / 2);
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(0), kFloor);
  Fill(0, kFloor);
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(0), kShare);
  EXPECT_EQ(f_.pool.bytes(), 0u);
}

TEST_F(LimitSharingTest, OneThatWokeKeepsItsShareWhenClassesLoseTheirRoom) {
  Rest(0);
  Fill(0, kFloor);
  sharing_.MoveLimits(LimitRound::kRest);
  Fill(0, 0);
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(0), kShare);
}

// Else misses in every tick would find no pool for a moment, and locks taken.
TEST_F(LimitSharingTest, ATickThatMovesNothingLeavesThePoolAlone) {
  Rest(0);
  f_.pool.Set(1000);  // a claim under way has the rest
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(f_.pool.bytes(), 1000u);
}

TEST_F(LimitSharingTest, ItsPartComesBackFromWhoeverHasMoreThanAShare) {
  Rest(0);
  for (int round = 0; round < 4; ++round) {
    Fill(1, Limit(1));
    Miss(1, 1000);
    sharing_.MoveLimits(LimitRound::kNeed);
  }
  ASSERT_GT(Limit(1), kShare + kShare / 2);
  Fill(0, kFloor);
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(0), kShare);
  EXPECT_EQ(Sum(), kCpus * kShare);
}

TEST_F(LimitSharingTest, OneThatGaveToANeedierOneDoesNotHaveItBackAtOnce) {
  Fill(1, kShare);
  Miss(1, 1000);
  sharing_.MoveLimits(LimitRound::kNeed);
  ASSERT_EQ(Limit(0), kShare - kShare / 8);
  Fill(0, Limit(0));
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(0), kShare - kShare / 8);
}

TEST_F(LimitSharingTest, MissesCountOnceAndOnlyInRoundsByNeed) {
  Fill(1, kShare);
  Miss(1, 1000);
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(1), kShare);
  EXPECT_EQ(drain_.drops, 0u);
  sharing_.MoveLimits(LimitRound::kNeed);
  EXPECT_EQ(Limit(1), kShare + kShare / 4);
  EXPECT_EQ(drain_.drops, kCpus);
  Fill(1, Limit(1));
  sharing_.MoveLimits(LimitRound::kNeed);
  EXPECT_EQ(Limit(1), kShare + kShare / 4);
}

TEST_F(LimitSharingTest, DonorsTakeTurnsFromRoundToRound) {
  f_.Use(3, kShare);
  for (int round = 0; round < 2; ++round) {
    Fill(0, Limit(0));
    Miss(0, 1000);
    sharing_.MoveLimits(LimitRound::kNeed);  // two of the three others give
  }
  EXPECT_EQ(Limit(1), kShare - 2 * (kShare / 8));
  EXPECT_EQ(Limit(2), kShare - kShare / 8);
  EXPECT_EQ(Limit(3), kShare - kShare / 8);
}

TEST_F(LimitSharingTest, EveryFifthTickIsARoundByNeed) {
  for (int tick = 1; tick <= 10; ++tick) {
    sharing_.Tick(1);
    EXPECT_EQ(drain_.drops, kCpus * static_cast<size_t>(tick / 5)) << tick;
  }
}

TEST_F(LimitSharingTest, WithEqualSharesNothingMoves) {
  sharing_.SetSizing(CacheSizing::kEqual);
  Rest(0);
  EXPECT_EQ(drain_.drains, 1u);
  Fill(1, kShare);
  Miss(1, 1000);
  sharing_.MoveLimits(LimitRound::kNeed);
  for (size_t i = 0; i < kCpus; ++i) EXPECT_EQ(Limit(i), kShare);
  // Nor is what rested then lent later.
  sharing_.SetSizing(CacheSizing::kByMisses);
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(0), kShare);
}

TEST_F(LimitSharingTest, ANewShareEndsAllLending) {
  Rest(0);
  sharing_.SetShare(2 * kShare);
  for (size_t i = 0; i < kCpus; ++i) EXPECT_EQ(Limit(i), 2 * kShare);
  EXPECT_EQ(f_.pool.bytes(), 0u);
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Limit(0), 2 * kShare);
}

TEST_F(LimitSharingTest, WhatCanNotBeLoweredLeavesLessForTheOthers) {
  Rest(0);
  Fill(1, kShare);
  drain_.refuse = true;
  sharing_.SetShare(kShare / 2);
  EXPECT_EQ(Limit(1), kShare);
  EXPECT_EQ(Limit(2), kShare / 2);
  EXPECT_EQ(Limit(0), kFloor);  // the total is used up
  EXPECT_EQ(f_.pool.bytes(), 0u);
  drain_.refuse = false;
  sharing_.SetShare(kShare / 2);
  EXPECT_EQ(Sum(), kCpus * kShare / 2);
}

TEST_F(LimitSharingTest, OneThatCouldNotBeDrainedKeepsItsLimit) {
  drain_.refuse = true;
  Rest(0);
  EXPECT_EQ(Limit(0), kShare);
}

TEST_F(LimitSharingTest, NobodyClaimsWhileLimitsAreSummedUp) {
  Rest(0);
  ASSERT_NE(f_.pool.bytes(), 0u);
  size_t lowered = 0;
  drain_.on_lower = [&] {
    ++lowered;
    EXPECT_EQ(f_.pool.bytes(), 0u);
  };
  sharing_.SetShare(kShare / 2);
  EXPECT_EQ(lowered, 2u);
}

TEST_F(LimitSharingTest, ANewcomerBringsItsShare) {
  Rest(0);
  f_.table.Activate(kCpus, [this] { return f_.pool.share(); });
  sharing_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(Sum(), (kCpus + 1) * kShare);
}

TEST_F(LimitSharingTest, InitFailsWithoutMemory) {
  f_.memory.fail = true;
  while (f_.memory.arena().Allocate(64, 64) != nullptr) {
  }
  LimitSharing<FakeDrain> other;
  EXPECT_FALSE(
      other.Init(&f_.table, &f_.pool, &drain_, &f_.memory.arena(), CacheSizing::kByMisses));
}

}  // namespace
}  // namespace strata::test
