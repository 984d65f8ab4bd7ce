// CpuCache over fake operations: room and its limit, growth, taking room from other classes,
// draining from another CPU, idleness, and the failures of its surroundings.
#include "cache/cpu_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "../hugepage/test_arena.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

using Cache = CpuCache<FakeOps, FakeTransfer>;

class CpuCacheTest : public testing::Test {
 protected:
  void Init(size_t limit) {
    ASSERT_TRUE(cache_.Init(ops_, &transfer_, &memory_.arena(), cpus_.slabs(), kCpus, limit));
  }
  void* Allocate(SizeClass c) {
    void* p = ops_.Pop(c);
    return p != nullptr ? p : cache_.PopSlow(c);
  }
  void Free(SizeClass c, void* p) {
    if (ops_.Push(c, p) != PushResult::kPushed) cache_.PushSlow(c, p);
  }
  void AllocateAndFree(SizeClass c, size_t n) {
    std::vector<void*> held;
    for (size_t i = 0; i < n; ++i) held.push_back(Allocate(c));
    for (void* p : held) Free(c, p);
  }
  // The sum over all classes of room × size, read from the slab itself.
  size_t RoomInSlab(size_t cpu) {
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      const size_t end = cpus_.slab(cpu).header(c).end.load();
      if (end > FirstSlot(c)) bytes += (end - FirstSlot(c)) * InfoOf(c).size;
    }
    return bytes;
  }

  static constexpr size_t kCpus = 3;
  static constexpr size_t kPlenty = size_t{64} << 20;
  TestArena memory_;
  FakeTransfer transfer_;
  FakeCpus cpus_{kCpus};
  FakeOps ops_{&cpus_};
  Cache cache_;
  const SizeClass small_ = ClassOfSize(64);
};

TEST_F(CpuCacheTest, AMissBringsABatchAndTheNextOnesHit) {
  Init(kPlenty);
  const size_t batch = InfoOf(small_).batch;
  std::vector<void*> held{Allocate(small_)};
  EXPECT_EQ(transfer_.takes, 1u);
  EXPECT_EQ(cache_.room_bytes(0), batch * 64);
  while (ops_.Pop(small_) != nullptr) held.push_back(nullptr);
  EXPECT_EQ(held.size(), batch);
  const CpuCacheClassStats s = cache_.Stats(small_);
  EXPECT_EQ(s.objects, 0u);
  EXPECT_EQ(s.pops, batch - 1);
  EXPECT_EQ(s.misses_alloc, 1u);
  EXPECT_EQ(s.misses_free, 0u);
}

TEST_F(CpuCacheTest, RoomGrowsWithMissesUpToTheArray) {
  Init(kPlenty);
  AllocateAndFree(small_, 20'000);
  const size_t slots = InfoOf(small_).cpu_slots;
  EXPECT_EQ(cache_.room_bytes(0), slots * 64);
  EXPECT_LE(cache_.Stats(small_).objects, slots);
  EXPECT_EQ(cache_.Stats(small_).objects, transfer_.out());
}

TEST_F(CpuCacheTest, TheLimitOfRoomHolds) {
  constexpr size_t kLimit = 100'000;
  Init(kLimit);
  for (size_t i = 1; i < kNumClasses; ++i) {
    AllocateAndFree(static_cast<SizeClass>(i), 300);
    ASSERT_LE(cache_.room_bytes(0), kLimit);
    ASSERT_EQ(cache_.room_bytes(0), RoomInSlab(0));
  }
}

TEST_F(CpuCacheTest, AClassTakesTheUnusedRoomOfAnother) {
  const SizeClass other = ClassOfSize(1024);
  const size_t batch_bytes = InfoOf(other).batch * size_t{1024};
  Init(batch_bytes);  // one batch of either
  void* p = Allocate(other);
  ASSERT_EQ(cache_.room_bytes(0), batch_bytes);
  // Its objects leave, its room stays until another class wants it.
  std::vector<void*> held{p};
  while (void* q = ops_.Pop(other)) held.push_back(q);
  for (size_t i = 0; i < 1000 && cache_.Stats(small_).objects == 0; ++i)
    held.push_back(Allocate(small_));
  EXPECT_GT(cache_.Stats(small_).objects, 0u);
  EXPECT_LE(cache_.room_bytes(0), batch_bytes);
  EXPECT_EQ(cpus_.slab(0).header(other).end.load(), FirstSlot(other));
}

TEST_F(CpuCacheTest, TakenRoomLeavesTheObjectsWhereTheyAre) {
  const SizeClass other = ClassOfSize(1024);
  Init(InfoOf(other).batch * size_t{1024});
  Allocate(other);
  const size_t cached = cache_.Stats(other).objects;
  ASSERT_GT(cached, 0u);
  AllocateAndFree(small_, 2000);
  EXPECT_EQ(cache_.Stats(other).objects, cached);
  size_t popped = 0;
  while (ops_.Pop(other) != nullptr) ++popped;
  EXPECT_EQ(popped, cached);
}

TEST_F(CpuCacheTest, EachCpuHasItsOwn) {
  Init(kPlenty);
  Allocate(small_);
  cpus_.current = 2;
  EXPECT_EQ(ops_.Pop(small_), nullptr);
  Allocate(small_);
  EXPECT_EQ(cache_.active_vcpus(), 2u);
  EXPECT_EQ(cache_.room_bytes(1), 0u);
  EXPECT_EQ(cache_.room_bytes(2), cache_.room_bytes(0));
  EXPECT_EQ(cache_.Stats(small_).misses_alloc, 2u);
}

TEST_F(CpuCacheTest, DrainReturnsEverythingAndTheSlabWorksOn) {
  Init(kPlenty);
  std::vector<void*> held;
  for (size_t size : {8, 64, 1024, 32768, 262144}) {
    const SizeClass c = ClassOfSize(size);
    AllocateAndFree(c, InfoOf(c).batch * size_t{3});
  }
  size_t cached_bytes = 0;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    cached_bytes += cache_.Stats(c).objects * InfoOf(c).size;
  }
  ASSERT_GT(transfer_.out(), 0u);
  const uint64_t pops = cache_.Stats(small_).pops;
  cpus_.current = 1;  // from elsewhere
  EXPECT_EQ(cache_.Drain(0), cached_bytes);
  EXPECT_EQ(transfer_.out(), 0u);
  EXPECT_EQ(cache_.room_bytes(0), 0u);
  EXPECT_EQ(RoomInSlab(0), 0u);
  EXPECT_EQ(cache_.Stats(small_).pops, pops);  // counts survive
  EXPECT_EQ(cache_.Drain(0), 0u);
  EXPECT_EQ(cache_.Drain(2), 0u);  // never used
  cpus_.current = 0;
  EXPECT_EQ(ops_.Pop(small_), nullptr);
  void* p = Allocate(small_);
  EXPECT_EQ(ops_.Push(small_, p), PushResult::kPushed);
  EXPECT_EQ(ops_.Pop(small_), p);
}

TEST_F(CpuCacheTest, ADrainThatCannotFenceLosesNothing) {
  Init(kPlenty);
  AllocateAndFree(small_, 500);
  const size_t out = transfer_.out();
  cpus_.fence_fails = true;
  EXPECT_EQ(cache_.Drain(0), 0u);
  EXPECT_EQ(transfer_.out(), out);
  // A stopped slab refuses everything, so allocation goes round it.
  EXPECT_EQ(ops_.Pop(small_), nullptr);
  void* p = Allocate(small_);
  ASSERT_NE(p, nullptr);
  Free(small_, p);
  EXPECT_EQ(transfer_.out(), out);
  cpus_.fence_fails = false;
  EXPECT_GT(cache_.Drain(0), 0u);
  EXPECT_EQ(transfer_.out(), 0u);
}

TEST_F(CpuCacheTest, WithoutAFenceNoCpuIsActivatedAndNothingLeaks) {
  Init(kPlenty);
  cpus_.fence_fails = true;
  const size_t used = memory_.arena().used_bytes();
  for (int i = 0; i < 100; ++i) {
    void* p = Allocate(small_);
    ASSERT_NE(p, nullptr);
    Free(small_, p);
  }
  EXPECT_EQ(transfer_.out(), 0u);
  EXPECT_EQ(cache_.active_vcpus(), 0u);
  EXPECT_EQ(memory_.arena().used_bytes(), used);
  cpus_.fence_fails = false;
  Allocate(small_);
  EXPECT_EQ(cache_.active_vcpus(), 1u);
  EXPECT_GT(cache_.Stats(small_).objects, 0u);
}

TEST_F(CpuCacheTest, WithoutMetadataObjectsGoStraightThrough) {
  Init(kPlenty);
  memory_.fail = true;
  while (memory_.arena().Allocate(1024) != nullptr) {
  }
  void* p = Allocate(small_);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(transfer_.out(), 1u);
  Free(small_, p);
  EXPECT_EQ(transfer_.out(), 0u);
  memory_.fail = false;
  Allocate(small_);
  EXPECT_GT(transfer_.out(), 1u);
}

TEST_F(CpuCacheTest, ACpuNumberBeyondTheSlabsIsServedFromBelow) {
  Init(kPlenty);
  // Only the slow half is asked: the fast half's slabs cover every possible number.
  cpus_.current = 0;
  AllocateAndFree(small_, 1);
  Cache narrow;
  ASSERT_TRUE(narrow.Init(ops_, &transfer_, &memory_.arena(), cpus_.slabs(), 0, kPlenty));
  cpus_.current = 1;
  void* p = narrow.PopSlow(small_);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(narrow.active_vcpus(), 0u);
  narrow.PushSlow(small_, p);
  EXPECT_FALSE(transfer_.IsOut(p));
}

TEST_F(CpuCacheTest, InitFailsWithoutMetadata) {
  memory_.fail = true;
  EXPECT_FALSE(cache_.Init(ops_, &transfer_, &memory_.arena(), cpus_.slabs(), kCpus, kPlenty));
}

TEST_F(CpuCacheTest, OutOfMemoryIsNull) {
  Init(kPlenty);
  transfer_.limit = 5;
  std::vector<void*> held;
  while (void* p = Allocate(small_)) held.push_back(p);
  EXPECT_EQ(held.size(), 5u);
  Free(small_, held.back());
  EXPECT_EQ(Allocate(small_), held.back());
}

TEST_F(CpuCacheTest, OnlyIdleCpusAreDrained) {
  Init(kPlenty);
  AllocateAndFree(small_, 100);
  const size_t out = transfer_.out();
  EXPECT_EQ(cache_.DrainIfIdle(0, 2), 0u);  // first look
  EXPECT_EQ(cache_.DrainIfIdle(0, 2), 0u);  // idle once
  AllocateAndFree(small_, 1);
  EXPECT_EQ(cache_.DrainIfIdle(0, 2), 0u);  // busy again
  EXPECT_EQ(cache_.DrainIfIdle(0, 2), 0u);
  EXPECT_EQ(transfer_.out(), out);
  EXPECT_GT(cache_.DrainIfIdle(0, 2), 0u);
  EXPECT_EQ(transfer_.out(), 0u);
  EXPECT_EQ(cache_.DrainIfIdle(0, 2), 0u);
  EXPECT_EQ(cache_.DrainIfIdle(1, 1), 0u);  // never used
}

TEST_F(CpuCacheTest, OverflowSendsABatchDown) {
  Init(InfoOf(small_).batch * size_t{64});  // room for one batch in all
  const size_t batch = InfoOf(small_).batch;
  std::vector<void*> held;
  for (size_t i = 0; i < 3 * batch; ++i) held.push_back(Allocate(small_));
  const size_t gives = transfer_.gives;
  for (void* p : held) Free(small_, p);
  EXPECT_GE(transfer_.gives, gives + 1);
  EXPECT_LE(transfer_.gives, gives + 4);  // whole batches, not single objects
  EXPECT_LE(cache_.Stats(small_).objects, batch);
}

TEST_F(CpuCacheTest, IsNewestKnowsTheLastFreedOnly) {
  Init(kPlenty);
  void* a = Allocate(small_);
  void* b = Allocate(small_);
  Allocate(small_);  // stays out, so that the class is not full
  Free(small_, a);
  Free(small_, b);
  EXPECT_TRUE(cache_.IsNewest(small_, b));
  EXPECT_FALSE(cache_.IsNewest(small_, a));
  EXPECT_EQ(ops_.Push(small_, b), PushResult::kSameAsNewest);
  EXPECT_EQ(ops_.Pop(small_), b);  // asking changed nothing
  EXPECT_EQ(ops_.Pop(small_), a);
  cpus_.current = 1;
  EXPECT_FALSE(cache_.IsNewest(small_, b));
}

TEST_F(CpuCacheTest, VisitLocksMeetsEveryActiveCpu) {
  Init(kPlenty);
  Allocate(small_);
  cpus_.current = 2;
  Allocate(small_);
  size_t locks = 0;
  cache_.VisitLocks([&](Lock& lock) STRATA_NO_TSA {
    lock.Acquire();
    lock.Release();
    ++locks;
  });
  EXPECT_EQ(locks, 3u);  // two CPUs and the activation lock
}

}  // namespace
}  // namespace strata::test
