// What a vCPU holds beyond the slots of its slab: that bursts of tiny objects come back from there,
// that its limit holds and others' needs go first, and that draining, shrinking and lack of memory
// lose nothing.
#include <gtest/gtest.h>

#include <vector>

#include "../hugepage/test_arena.h"
#include "cache/cpu_cache.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

class CpuCacheReserveTest : public testing::Test {
 protected:
  void Init(size_t limit) {
    ASSERT_TRUE(cache_.Init(ops_, &transfer_, &memory_.arena(), cpus_.slabs(), kCpus, limit));
  }
  std::vector<void*> Take(SizeClass c, size_t n) {
    std::vector<void*> out;
    for (size_t i = 0; i < n; ++i) {
      void* p = ops_.Pop(c);
      out.push_back(p != nullptr ? p : cache_.PopSlow(c));
    }
    return out;
  }
  void Free(SizeClass c, const std::vector<void*>& objects) {
    for (void* p : objects)
      ASSERT_TRUE(ops_.Push(c, p) == PushResult::kPushed || cache_.PushSlow(c, p));
  }
  void Swing(SizeClass c, size_t n) { Free(c, Take(c, n)); }
  size_t reserve(size_t cpu = 0) const { return cache_.StatsOf(cpu).reserve; }

  static constexpr size_t kCpus = 2;
  static constexpr size_t kShare = size_t{1536} << 10;
  const SizeClass tiny_ = ClassOfSize(8);
  const size_t slots_ = InfoOf(tiny_).cpu_slots;
  TestArena memory_;
  FakeTransfer transfer_;
  FakeCpus cpus_{kCpus};
  FakeOps ops_{&cpus_};
  CpuCache<FakeOps, FakeTransfer> cache_;
};

TEST_F(CpuCacheReserveTest, ABurstBeyondTheSlotsStaysAndComesBack) {
  Init(kShare);
  for (int i = 0; i < 3; ++i) Swing(tiny_, 20'000);  // the slab grows to all its slots
  const size_t takes = transfer_.takes;
  const size_t gives = transfer_.gives;
  Swing(tiny_, 20'000);
  EXPECT_EQ(transfer_.takes, takes);
  EXPECT_EQ(transfer_.gives, gives);
  EXPECT_EQ(cache_.Stats(tiny_).objects, transfer_.out());
  EXPECT_GT(reserve(), (20'000 - slots_) * 8 - 8192);
  EXPECT_EQ(cache_.StatsOf(0).used, transfer_.out() * 8);
  EXPECT_LE(cache_.room_bytes(0), cache_.limit(0));
}

TEST_F(CpuCacheReserveTest, NoMoreIsKeptThanTheClassMayHave) {
  Init(kShare);
  for (int i = 0; i < 3; ++i) Swing(tiny_, 200'000);
  EXPECT_LE(cache_.Stats(tiny_).objects, slots_ + CacheReserve::CapacityOf(tiny_));
  EXPECT_GT(cache_.Stats(tiny_).objects, slots_ + CacheReserve::CapacityOf(tiny_) - slots_);
}

TEST_F(CpuCacheReserveTest, ClassesWithSlotsEnoughHaveNone) {
  Init(size_t{64} << 20);
  const SizeClass c = ClassOfSize(256);
  for (int i = 0; i < 3; ++i) Swing(c, 10'000);
  EXPECT_EQ(reserve(), 0u);
  EXPECT_LE(cache_.Stats(c).objects, InfoOf(c).cpu_slots);
}

TEST_F(CpuCacheReserveTest, TheLimitHoldsAndOtherClassesNeedsGoFirst) {
  constexpr size_t kLimit = 96 << 10;
  Init(kLimit);
  for (int i = 0; i < 3; ++i) Swing(tiny_, 30'000);
  EXPECT_GT(reserve(), 0u);
  EXPECT_LE(cache_.room_bytes(0), kLimit);
  const size_t before = reserve();
  const SizeClass other = ClassOfSize(1024);
  for (int i = 0; i < 40; ++i) {
    Swing(other, 40);
    ASSERT_LE(cache_.room_bytes(0), kLimit);
  }
  EXPECT_LT(reserve(), before);
  EXPECT_GT(cache_.Stats(other).objects, 8u);
  EXPECT_EQ(cache_.Stats(tiny_).objects + cache_.Stats(other).objects, transfer_.out());
}

TEST_F(CpuCacheReserveTest, DrainingAndShrinkingSendItDown) {
  Init(kShare);
  for (int i = 0; i < 3; ++i) Swing(tiny_, 20'000);
  const size_t bytes = transfer_.out() * 8;
  cpus_.fence_fails = true;  // the slab can't be emptied then, the reserve can
  const size_t drained = cache_.Drain(0);
  EXPECT_GT(drained, 0u);
  EXPECT_EQ(reserve(), 0u);
  cpus_.fence_fails = false;
  EXPECT_EQ(drained + cache_.Drain(0), bytes);
  EXPECT_EQ(transfer_.out(), 0u);
  EXPECT_EQ(cache_.room_bytes(0), 0u);

  for (int i = 0; i < 3; ++i) Swing(tiny_, 20'000);
  const size_t fences = cpus_.fences;
  cache_.SetShare(64 << 10);
  EXPECT_LE(cache_.room_bytes(0), size_t{64} << 10);
  EXPECT_EQ(cpus_.fences, fences);  // nobody on the CPU noticed
}

TEST_F(CpuCacheReserveTest, WhatAClassLeftThereGoesWhenItRests) {
  Init(kShare);
  for (int i = 0; i < 3; ++i) Swing(tiny_, 20'000);
  cache_.Resize();
  EXPECT_GT(reserve(), 0u);
  Swing(ClassOfSize(64), 100);
  cache_.Resize();
  EXPECT_EQ(reserve(), 0u);
}

TEST_F(CpuCacheReserveTest, TheNewestObjectIsKnownWhenItIsFreedTwice) {
  Init(kShare);
  std::vector<void*> held = Take(tiny_, 30'000);
  bool beyond = false;
  for (void* p : held) {
    ASSERT_TRUE(ops_.Push(tiny_, p) == PushResult::kPushed || cache_.PushSlow(tiny_, p));
    const size_t objects = cache_.Stats(tiny_).objects;
    ASSERT_FALSE(cache_.PushSlow(tiny_, p));
    ASSERT_EQ(cache_.Stats(tiny_).objects, objects);
    beyond |= reserve() != 0;
  }
  EXPECT_TRUE(beyond);
  EXPECT_EQ(cache_.Stats(tiny_).objects, transfer_.out());
}

// The thread moves to a vCPU with little room just when the objects go back into the slab.
TEST_F(CpuCacheReserveTest, ADoubleFreeWhileTheThreadMovesLosesAndDoublesNothing) {
  Init(kShare);
  cpus_.current = 1;
  Swing(tiny_, 10);
  cpus_.current = 0;
  for (int i = 0; i < 3; ++i) Swing(tiny_, 8'000);
  size_t looks = 1000;  // at the number of the vCPU; the last is the one for putting objects back
  for (const size_t to : {size_t{0}, size_t{1}}) {
    std::vector<void*> taken = Take(tiny_, 3000);
    size_t freed = 0;
    while (ops_.Push(tiny_, taken[freed]) == PushResult::kPushed) ++freed;
    cpus_.migrate_in = looks;
    cpus_.migrate_to = to;
    EXPECT_FALSE(cache_.PushSlow(tiny_, taken[freed - 1]));
    looks -= cpus_.migrate_in;
    cpus_.migrate_in = 0;
    EXPECT_EQ(cpus_.current, to);
    cpus_.current = 0;
    Free(tiny_, {taken.begin() + static_cast<ptrdiff_t>(freed), taken.end()});
    EXPECT_EQ(cache_.Stats(tiny_).objects, transfer_.out());
  }
  for (size_t cpu = 0; cpu < kCpus; ++cpu) cache_.Drain(cpu);
  EXPECT_EQ(transfer_.out(), 0u);  // which ends the test at an object that comes back twice
}

TEST_F(CpuCacheReserveTest, WithoutMemoryForItObjectsGoDown) {
  Init(kShare);
  Swing(tiny_, 1000);
  memory_.fail = true;
  Swing(tiny_, 20'000);
  EXPECT_EQ(reserve(), 0u);
  EXPECT_LE(cache_.Stats(tiny_).objects, slots_);
  EXPECT_EQ(cache_.Stats(tiny_).objects, transfer_.out());
}

}  // namespace
}  // namespace strata::test
