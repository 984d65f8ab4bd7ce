// The arrays of a vCPU's classes: they begin in the slab, grow as the class does with what lies in
// them, and stay as they are when memory is short or the thread is on another vCPU by then.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../hugepage/test_arena.h"
#include "cache/cpu_cache.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

class CpuCacheArrayTest : public testing::Test {
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
  size_t capacity(SizeClass c, size_t cpu = 0) { return cpus_.slab(cpu).header(c).capacity; }
  // Objects from below, of which so many lie on the slab; with all its first slots in use the next
  // push has to make the array longer.
  std::vector<void*> FillArray(SizeClass c) {
    std::vector<void*> objects(kMaxBatch);
    transfer_.Take(c, objects.data(), objects.size());
    while (cpus_.slab(0).header(c).fill() < Slab::kFirstSlots) {
      Free(c, {objects.back()});
      objects.pop_back();
    }
    return objects;
  }

  static constexpr size_t kCpus = 2;
  static constexpr size_t kShare = size_t{1536} << 10;
  const SizeClass tiny_ = ClassOfSize(8);
  TestArena memory_;
  FakeTransfer transfer_;
  FakeCpus cpus_{kCpus};
  FakeOps ops_{&cpus_};
  CpuCache<FakeOps, FakeTransfer> cache_;
};

TEST_F(CpuCacheArrayTest, AClassThatHoldsLittleStaysInTheSlab) {
  Init(kShare);
  const size_t used = memory_.arena().used_bytes();
  for (size_t i = 1; i < kNumClasses; ++i) {
    Swing(static_cast<SizeClass>(i), 3);
    EXPECT_EQ(capacity(static_cast<SizeClass>(i)), Slab::kFirstSlots);
    EXPECT_LE(cpus_.slab(0).header(static_cast<SizeClass>(i)).room(), Slab::kFirstSlots);
  }
  EXPECT_LE(memory_.arena().used_bytes() - used, size_t{8} << 10);  // the vCPU's record
}

TEST_F(CpuCacheArrayTest, ABurstOfTinyObjectsStaysAndComesBack) {
  Init(kShare);
  Take(ClassOfSize(64), 1);
  for (int i = 0; i < 4; ++i) Swing(tiny_, 60'000);
  const size_t takes = transfer_.takes;
  const size_t gives = transfer_.gives;
  Swing(tiny_, 60'000);
  EXPECT_EQ(transfer_.takes, takes);
  EXPECT_EQ(transfer_.gives, gives);
  EXPECT_GE(cache_.Stats(tiny_).objects, 60'000u);
  EXPECT_LE(cache_.Stats(tiny_).objects, InfoOf(tiny_).cpu_slots);
  EXPECT_LE(cache_.room_bytes(0), cache_.limit(0));
}

TEST_F(CpuCacheArrayTest, WhatLiesInAnArrayMovesWithItInOrder) {
  Init(kShare);
  const std::vector<void*> held = FillArray(tiny_);
  std::vector<void*> freed;
  size_t grown = 0;
  for (void* p : held) {
    const size_t before = capacity(tiny_);
    Free(tiny_, {p});
    freed.push_back(p);
    if (capacity(tiny_) == before) continue;
    ++grown;
    const SlabHeader& h = cpus_.slab(0).header(tiny_);
    for (size_t i = 0; i < std::min(h.fill(), freed.size()); ++i)
      ASSERT_EQ(h.slots()[h.fill() - 1 - i], freed[freed.size() - 1 - i]);
  }
  EXPECT_EQ(grown, 2u);  // to 63 and to 255
  EXPECT_EQ(cache_.Stats(tiny_).objects, transfer_.out());
}

TEST_F(CpuCacheArrayTest, WithoutMemoryTheClassKeepsItsArray) {
  Init(kShare);
  Swing(tiny_, 1);
  memory_.fail = true;
  while (memory_.arena().Allocate(256, 64) != nullptr) {
  }
  Swing(tiny_, 20'000);
  EXPECT_EQ(capacity(tiny_), Slab::kFirstSlots);
  EXPECT_EQ(cpus_.slab(0).header(tiny_).room(), Slab::kFirstSlots);
  EXPECT_EQ(cache_.Stats(tiny_).objects, transfer_.out());
  memory_.fail = false;
  Swing(tiny_, 20'000);
  EXPECT_GT(capacity(tiny_), Slab::kFirstSlots);
}

// Nobody knows then whether a sequence on the old vCPU still uses the array.
TEST_F(CpuCacheArrayTest, AThreadThatMovedChangesNothingAndUsesTheMemoryLater) {
  Init(kShare);
  const std::vector<void*> held = FillArray(tiny_);
  void** const array = cpus_.slab(0).header(tiny_).slots();
  cpus_.elsewhere = true;
  ASSERT_TRUE(cache_.PushSlow(tiny_, held[0]));
  EXPECT_EQ(cpus_.slab(0).header(tiny_).slots(), array);
  EXPECT_FALSE(cpus_.slab(0).IsStopped(tiny_));
  EXPECT_EQ(cpus_.slab(0).header(tiny_).room(), Slab::kFirstSlots);
  const size_t used = memory_.arena().used_bytes();
  ASSERT_TRUE(cache_.PushSlow(tiny_, held[1]));
  EXPECT_EQ(memory_.arena().used_bytes(), used);
  cpus_.elsewhere = false;
  Free(tiny_, {held.begin() + 2, held.begin() + 40});
  EXPECT_GT(capacity(tiny_), Slab::kFirstSlots);
  EXPECT_EQ(memory_.arena().used_bytes(), used);
  EXPECT_EQ(cache_.Stats(tiny_).objects, transfer_.out() - (held.size() - 40));
}

// Between the stop and the answer of IsOn others find the class closed; the array is read last, so
// that who sees the new bounds sees the new array.
TEST_F(CpuCacheArrayTest, TheClassIsStoppedWhileItsArrayChanges) {
  Init(kShare);
  const std::vector<void*> held = FillArray(tiny_);
  size_t asked = 0;
  cpus_.on_is_on = [&] {
    ++asked;
    EXPECT_TRUE(cpus_.slab(0).IsStopped(tiny_));
    EXPECT_EQ(ops_.Pop(tiny_), nullptr);
    EXPECT_EQ(ops_.Push(tiny_, held[0]), PushResult::kNoRoom);
    EXPECT_EQ(capacity(tiny_), Slab::kFirstSlots);
  };
  ASSERT_TRUE(cache_.PushSlow(tiny_, held[0]));
  EXPECT_EQ(asked, 1u);
  EXPECT_FALSE(cpus_.slab(0).IsStopped(tiny_));
  EXPECT_GT(capacity(tiny_), Slab::kFirstSlots);
  EXPECT_EQ(ops_.Pop(tiny_), held[0]);
}

TEST_F(CpuCacheArrayTest, TheNewestObjectIsKnownWhenItIsFreedTwice) {
  Init(kShare);
  const std::vector<void*> held = Take(tiny_, 3000);
  for (void* p : held) {
    Free(tiny_, {p});
    const size_t objects = cache_.Stats(tiny_).objects;
    ASSERT_FALSE(ops_.Push(tiny_, p) == PushResult::kPushed);
    ASSERT_FALSE(cache_.PushSlow(tiny_, p));
    ASSERT_EQ(cache_.Stats(tiny_).objects, objects);
  }
}

}  // namespace
}  // namespace strata::test
