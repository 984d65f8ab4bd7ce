// Limits that move between the per-CPU caches: who gets them, what a shrink keeps, that a resting
// CPU lends its part and has it back, and that the total holds at each step.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "cache/cpu_cache.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

constexpr size_t kShare = 256 << 10;
constexpr size_t kCpus = 4;

class CpuCacheResizeTest : public testing::Test {
 protected:
  CpuCacheResizeTest() { Init(CacheSizing::kByMisses); }
  void Init(CacheSizing sizing) {
    ASSERT_TRUE(
        cache_.Init(ops_, &transfer_, &memory_.arena(), cpus_.slabs(), kCpus, kShare, sizing));
  }

  // Takes n objects and frees them: what does not fit in the cache misses.
  void Swing(size_t cpu, SizeClass c, size_t n) {
    cpus_.current = cpu;
    std::vector<void*> held;
    for (size_t i = 0; i < n; ++i) {
      void* p = ops_.Pop(c);
      held.push_back(p != nullptr ? p : cache_.PopSlow(c));
    }
    for (void* p : held) {
      ASSERT_TRUE(ops_.Push(c, p) == PushResult::kPushed || cache_.PushSlow(c, p));
    }
  }
  uint64_t Misses(size_t cpu) const {
    const CpuCacheVcpuStats s = cache_.StatsOf(cpu);
    return s.misses_alloc + s.misses_free;
  }
  size_t Sum() const {
    size_t sum = cache_.pool();
    for (size_t cpu = 0; cpu < kCpus; ++cpu) {
      sum += cache_.limit(cpu);
      EXPECT_LE(cache_.room_bytes(cpu), cache_.limit(cpu));
    }
    return sum;
  }

  TestArena memory_;
  FakeTransfer transfer_;
  FakeCpus cpus_{kCpus};
  FakeOps ops_{&cpus_};
  const SizeClass small_ = ClassOfSize(64);
  const SizeClass middle_ = ClassOfSize(1024);
  CpuCache<FakeOps, FakeTransfer> cache_;
};

TEST_F(CpuCacheResizeTest, TheOneThatMissesGetsWhatTheOthersDoNotNeed) {
  for (size_t cpu = 1; cpu < kCpus; ++cpu) Swing(cpu, small_, 100);
  uint64_t first = 0;
  for (int round = 0; round < 40; ++round) {
    const uint64_t before = Misses(0);
    for (int i = 0; i < 30; ++i) Swing(0, middle_, 480);  // 480 KiB: more than its share
    if (round == 1) first = Misses(0) - before;
    for (size_t cpu = 1; cpu < kCpus; ++cpu) Swing(cpu, small_, 100);
    cache_.MoveLimits(LimitRound::kNeed);
    ASSERT_EQ(Sum(), kCpus * kShare);
  }
  EXPECT_GE(cache_.limit(0), kShare + kShare / 2);
  for (size_t cpu = 1; cpu < kCpus; ++cpu) EXPECT_GE(cache_.limit(cpu), kShare / 8);
  const uint64_t before = Misses(0);
  for (int i = 0; i < 30; ++i) Swing(0, middle_, 480);
  EXPECT_LT((Misses(0) - before) * 2, first);
}

TEST_F(CpuCacheResizeTest, EqualSizingMovesNothing) {
  cache_.SetSizing(CacheSizing::kEqual);
  Swing(1, small_, 100);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 30; ++i) Swing(0, middle_, 480);
    cache_.MoveLimits(LimitRound::kNeed);
  }
  EXPECT_EQ(cache_.limit(0), kShare);
  EXPECT_EQ(cache_.limit(1), kShare);
  EXPECT_EQ(cache_.StatsOf(0).resizes + cache_.StatsOf(1).resizes, 0u);
}

TEST_F(CpuCacheResizeTest, AShrinkSendsDownTheOldestObjectsAndKeepsTheNewest) {
  Swing(0, small_, 1500);
  Swing(0, small_, 1500);
  const SlabHeader& h = cpus_.slab(0).header(small_);
  const size_t fill = h.fill();
  ASSERT_GT(fill, 1000u);
  std::vector<void*> newest;
  for (size_t i = 0; i < 100; ++i) newest.push_back(h.slots()[h.fill() - 1 - i]);
  const uint64_t pops = h.pops();
  const size_t out = transfer_.out();
  cache_.SetShare(16 << 10);
  EXPECT_LE(cache_.room_bytes(0), size_t{16} << 10);
  EXPECT_EQ(Sum(), size_t{16} << 10);
  const size_t left = h.fill();
  EXPECT_EQ(transfer_.out(), out - (fill - left));
  EXPECT_EQ(h.pops(), pops);
  for (void* p : newest) EXPECT_EQ(ops_.Pop(small_), p);
  for (void* p : newest) EXPECT_EQ(ops_.Push(small_, p), PushResult::kPushed);
}

TEST_F(CpuCacheResizeTest, RoomThatIsFreeIsTakenWithoutStoppingAnyone) {
  Swing(0, small_, 1500);
  Swing(0, small_, 1500);
  for (int i = 0; i < 1000; ++i) ASSERT_NE(ops_.Pop(small_), nullptr);
  const size_t fences = cpus_.fences;
  cache_.SetShare(cache_.room_bytes(0) - 500 * 64);
  EXPECT_EQ(cpus_.fences, fences + 1);  // with objects above the new room it takes three
}

TEST_F(CpuCacheResizeTest, AClassThatNobodyUsesAnyMoreLosesItsRoom) {
  Swing(0, middle_, 100);
  Swing(0, small_, 100);
  cache_.MoveLimits(LimitRound::kNeed);  // both were new
  Swing(0, small_, 100);
  EXPECT_GT(cache_.Stats(middle_).objects, 50u);
  cache_.MoveLimits(LimitRound::kNeed);
  EXPECT_EQ(cache_.Stats(middle_).objects, 0u);
  EXPECT_GT(cache_.Stats(small_).objects, 50u);
  // Not for ever: the next miss has it room again.
  Swing(0, middle_, 100);
  EXPECT_GT(cache_.Stats(middle_).objects, 20u);
}

TEST_F(CpuCacheResizeTest, AnIdleCpuLendsItsPartAndHasItBackIfNobodyTookIt) {
  Swing(0, middle_, 200);
  Swing(1, small_, 100);
  for (int tick = 0; tick < 4; ++tick) {
    Swing(1, small_, 100);
    cache_.Tick(2);
  }
  EXPECT_EQ(cache_.room_bytes(0), 0u);
  EXPECT_EQ(cache_.limit(0), kShare / 8);
  EXPECT_EQ(cache_.pool(), kShare - kShare / 8);
  EXPECT_EQ(Sum(), 2 * kShare);
  for (int i = 0; i < 30; ++i) Swing(0, middle_, 200);
  EXPECT_EQ(cache_.limit(0), kShare);
  EXPECT_EQ(Sum(), 2 * kShare);
}

TEST_F(CpuCacheResizeTest, ACpuThatLentItsPartHasItBackAtTheNextTick) {
  Swing(1, small_, 10);
  for (int tick = 0; tick < 4; ++tick) cache_.Tick(1);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 30; ++i) Swing(0, middle_, 480);
    cache_.MoveLimits(LimitRound::kNeed);
  }
  ASSERT_GT(cache_.limit(0), kShare + kShare / 2);
  cache_.MoveLimits(LimitRound::kRest);  // it still rests
  ASSERT_EQ(cache_.limit(1), kShare / 8);
  for (int i = 0; i < 4; ++i) Swing(1, middle_, 100);
  cache_.MoveLimits(LimitRound::kRest);
  EXPECT_EQ(cache_.limit(1), kShare);
  EXPECT_EQ(Sum(), 2 * kShare);
}

TEST_F(CpuCacheResizeTest, ACpuThatWakesUpPoorGetsItsPartBackInTime) {
  Swing(1, small_, 10);
  for (int tick = 0; tick < 4; ++tick) cache_.Tick(1);
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 30; ++i) Swing(0, middle_, 480);
    cache_.MoveLimits(LimitRound::kNeed);
  }
  ASSERT_EQ(cache_.limit(1), kShare / 8);
  ASSERT_GT(cache_.limit(0), kShare + kShare / 2);
  int rounds = 0;
  for (; cache_.limit(1) < kShare - kShare / 8 && rounds < 100; ++rounds) {
    Swing(0, middle_, 300);
    for (int i = 0; i < 30; ++i) Swing(1, middle_, 480);
    cache_.MoveLimits(LimitRound::kNeed);
    ASSERT_EQ(Sum(), 2 * kShare);
  }
  EXPECT_LT(rounds, 20);
}

// One CPU claims what it lent while all are put back to their shares: it may not have it twice.
TEST_F(CpuCacheResizeTest, AClaimThatMeetsASharingOutIsCountedOnce) {
  constexpr int kMeetings = 1000;
  const SizeClass large = ClassOfSize(64 << 10);  // more than the floor has room for
  std::atomic<int> go{0};
  std::atomic<int> done{0};
  std::thread claimer([&] {
    for (int i = 1; i <= kMeetings; ++i) {
      while (go.load() < i) std::this_thread::yield();
      void* p = cache_.PopSlow(large);
      transfer_.Give(large, &p, 1);
      done.store(i);
    }
  });
  size_t over = 0;
  for (int i = 1; i <= kMeetings; ++i) {
    if (i > 1) cache_.SetSizing(CacheSizing::kByMisses);
    cache_.PushSlow(small_, cache_.PopSlow(small_));
    while (cache_.limit(0) == kShare) cache_.Tick(1);
    go.store(i);
    cache_.SetSizing(CacheSizing::kEqual);
    while (done.load() < i) std::this_thread::yield();
    over += Sum() > kShare;
  }
  claimer.join();
  EXPECT_EQ(over, 0u);
}

// Every class of a poor CPU is asked for in turn: each has room at some time, and is served from
// it.
TEST_F(CpuCacheResizeTest, NoClassStarvesForEver) {
  cache_.SetShare(64 << 10);
  Swing(1, small_, 10);
  std::vector<uint64_t> hits(kNumClasses);
  for (int round = 0; round < 6; ++round) {
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      if (InfoOf(c).size > 8 << 10) continue;  // larger ones may not fit at all
      for (int k = 0; k < 4; ++k) Swing(0, c, 4);
      hits[i] = cache_.Stats(c).pops;
    }
    cache_.MoveLimits(LimitRound::kNeed);
    ASSERT_EQ(Sum(), size_t{128} << 10);
  }
  for (size_t i = 1; i < kNumClasses; ++i) {
    EXPECT_TRUE(hits[i] > 0 || InfoOf(static_cast<SizeClass>(i)).size > 8 << 10) << i;
  }
}

TEST_F(CpuCacheResizeTest, ARefusedFenceLeavesEverythingInPlace) {
  Swing(0, small_, 1500);
  Swing(1, small_, 100);
  const size_t out = transfer_.out();
  const size_t room = cache_.room_bytes(0);
  cpus_.fence_fails = true;
  cache_.SetShare(16 << 10);
  EXPECT_EQ(cache_.room_bytes(0), room);
  EXPECT_EQ(cache_.limit(0), kShare);
  EXPECT_EQ(transfer_.out(), out);
  EXPECT_NE(ops_.Pop(small_), nullptr);
  cpus_.fence_fails = false;
  cache_.SetShare(16 << 10);
  EXPECT_EQ(Sum(), size_t{32} << 10);
}

}  // namespace
}  // namespace strata::test
