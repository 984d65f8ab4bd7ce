// CpuCache over fake operations: room and its limit, growth, taking room from other classes,
// draining from another CPU, idleness, and the failures of its surroundings.
#include "cache/cpu_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
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
      bytes += end * InfoOf(c).size;
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

TEST_F(CpuCacheTest, AMissMakesRoomAndFillsPartOfIt) {
  Init(kPlenty);
  const size_t batch = InfoOf(small_).batch;
  Allocate(small_);
  EXPECT_EQ(transfer_.takes, 1u);
  const size_t room = cache_.room_bytes(0) / 64;
  EXPECT_GT(room, 0u);
  EXPECT_LE(room, batch);
  size_t hits = 0;
  while (ops_.Pop(small_) != nullptr) ++hits;
  EXPECT_GT(hits, 0u);
  EXPECT_EQ(hits + 1, Slab::kFirstSlots);  // more than a cache line of the smallest class
  EXPECT_LT(hits, room);                   // space is left for a free
  const CpuCacheClassStats s = cache_.Stats(small_);
  EXPECT_EQ(s.objects, 0u);
  EXPECT_EQ(s.pops, hits);
  EXPECT_EQ(s.misses_alloc, 1u);
  EXPECT_EQ(s.misses_free, 0u);
}

TEST_F(CpuCacheTest, ARefillIsABatchAtMostHoweverLargeTheRoom) {
  Init(kPlenty);
  AllocateAndFree(small_, 20'000);
  while (ops_.Pop(small_) != nullptr) continue;
  const size_t out = transfer_.out();
  Allocate(small_);
  EXPECT_EQ(transfer_.out(), out + InfoOf(small_).batch);
}

TEST_F(CpuCacheTest, AFreeThatMakesRoomSendsNothingDown) {
  Init(kPlenty);
  std::vector<void*> objects(100);
  transfer_.Take(small_, objects.data(), objects.size());
  for (void* p : objects) Free(small_, p);
  EXPECT_EQ(transfer_.gives, 0u);
  EXPECT_EQ(cache_.Stats(small_).objects, objects.size());
}

TEST_F(CpuCacheTest, AVcpusFiguresAreThoseOfItsClasses) {
  Init(kPlenty);
  const SizeClass other = ClassOfSize(1024);
  AllocateAndFree(small_, 1000);
  AllocateAndFree(other, 1000);
  const CpuCacheClassStats a = cache_.Stats(small_), b = cache_.Stats(other);
  ASSERT_GT(a.misses_free, 0u);
  cache_.SetShare(2 * kPlenty);
  const CpuCacheVcpuStats s = cache_.StatsOf(0);
  EXPECT_TRUE(s.in_use);
  EXPECT_EQ(s.room, RoomInSlab(0));
  EXPECT_EQ(s.used, a.objects * 64 + b.objects * 1024);
  EXPECT_EQ(s.misses_alloc, a.misses_alloc + b.misses_alloc);
  EXPECT_EQ(s.misses_free, a.misses_free + b.misses_free);
  EXPECT_EQ(s.limit, 2 * kPlenty);
  EXPECT_EQ(s.resizes, 1u);
  EXPECT_FALSE(cache_.StatsOf(1).in_use);
}

TEST_F(CpuCacheTest, ALaterRefillLeavesHalfTheRoomForFrees) {
  Init(kPlenty);
  for (int i = 0; i < 3; ++i) {
    Allocate(small_);
    while (ops_.Pop(small_) != nullptr) {
    }
  }
  Allocate(small_);
  const size_t room = cache_.room_bytes(0) / 64;
  ASSERT_GT(room, Slab::kFirstSlots);
  EXPECT_EQ(cache_.Stats(small_).objects, room / 2);
}

TEST_F(CpuCacheTest, OfACostlyClassASecondMissInTurnMovesAllTheRoom) {
  Init(kPlenty);
  const SizeClass c = ClassOfSize(64 << 10);
  AllocateAndFree(c, 200);
  const size_t room = InfoOf(c).cpu_slots, batch = InfoOf(c).batch;
  ASSERT_EQ(cache_.room_bytes(0), room * InfoOf(c).size);
  ASSERT_GT(room, 2 * batch);
  std::vector<void*> held;
  const auto allocate_to_a_miss = [&] {
    while (cache_.Stats(c).objects != 0) held.push_back(Allocate(c));
    held.push_back(Allocate(c));
  };
  const auto free_to_a_miss = [&] {
    const uint64_t misses = cache_.Stats(c).misses_free;
    while (cache_.Stats(c).misses_free == misses) {
      Free(c, held.back());
      held.pop_back();
    }
  };
  allocate_to_a_miss();
  EXPECT_EQ(cache_.Stats(c).objects, batch - 1);
  allocate_to_a_miss();
  EXPECT_EQ(cache_.Stats(c).objects, room - 1);
  allocate_to_a_miss();
  EXPECT_EQ(cache_.Stats(c).objects, room - 1);
  free_to_a_miss();
  EXPECT_EQ(cache_.Stats(c).objects, room - batch + 1);
  free_to_a_miss();
  EXPECT_EQ(cache_.Stats(c).objects, 1u);
}

TEST_F(CpuCacheTest, RoomGrowsWithMissesUpToTheArray) {
  Init(kPlenty);
  const SizeClass c = ClassOfSize(512);
  AllocateAndFree(c, 20'000);
  const size_t slots = InfoOf(c).cpu_slots;
  EXPECT_EQ(cache_.room_bytes(0), slots * 512);
  EXPECT_LE(cache_.Stats(c).objects, slots);
  EXPECT_EQ(cache_.Stats(c).objects, transfer_.out());
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

TEST_F(CpuCacheTest, AClassWithoutRoomTakesSomeFromAnIdleOne) {
  constexpr size_t kLimit = 64 << 10;
  const SizeClass other = ClassOfSize(1024);
  Init(kLimit);
  AllocateAndFree(other, 2000);
  const size_t room = cpus_.slab(0).header(other).end.load();
  ASSERT_EQ(room, kLimit / 1024);
  AllocateAndFree(small_, 2000);
  const size_t left = cpus_.slab(0).header(other).end.load();
  EXPECT_LT(left, room);
  EXPECT_LE(cache_.Stats(other).objects, left);  // what lay in the taken room went down
  EXPECT_GT(cache_.Stats(small_).objects, 0u);
  EXPECT_LE(cache_.room_bytes(0), kLimit);
  EXPECT_EQ(cache_.room_bytes(0), RoomInSlab(0));
  EXPECT_EQ(cache_.Stats(other).objects + cache_.Stats(small_).objects, transfer_.out());
}

TEST_F(CpuCacheTest, AThreadThatMovesWhileTakingRoomStrandsNothing) {
  constexpr size_t kLimit = 64 << 10;
  const SizeClass other = ClassOfSize(1024);
  Init(kLimit);
  cpus_.current = 1;
  AllocateAndFree(other, 40);
  cpus_.current = 0;
  AllocateAndFree(other, 2000);
  const size_t room = cpus_.slab(0).header(other).end.load();
  // The miss is on CPU 0; by the time that objects are popped the thread is on CPU 1.
  cpus_.migrate_in = 2;
  cpus_.migrate_to = 1;
  void* p = cache_.PopSlow(small_);
  ASSERT_EQ(cpus_.current, 1u);
  const size_t fill = cpus_.slab(0).header(other).fill();
  EXPECT_LE(fill, cpus_.slab(0).header(other).end.load());
  EXPECT_LE(cpus_.slab(0).header(other).end.load(), room);
  EXPECT_EQ(cache_.room_bytes(0), RoomInSlab(0));
  cache_.PushSlow(small_, p);
  cache_.Drain(0);
  cache_.Drain(1);
  EXPECT_EQ(transfer_.out(), 0u);
}

TEST_F(CpuCacheTest, BusyClassesDoNotTakeFromEachOtherAtEveryMiss) {
  constexpr size_t kLimit = 64 << 10;
  const SizeClass other = ClassOfSize(1024);
  Init(kLimit);
  AllocateAndFree(other, 300);
  AllocateAndFree(small_, 1000);
  // Both overflow all the time now. Their shares move at one miss in some.
  size_t changes = 0;
  size_t misses = 0;
  for (size_t i = 0; i < 200; ++i) {
    const size_t end = cpus_.slab(0).header(other).end.load();
    AllocateAndFree(i % 2 == 0 ? other : small_, 300);
    changes += cpus_.slab(0).header(other).end.load() != end;
  }
  misses = cache_.Stats(other).misses_alloc + cache_.Stats(small_).misses_alloc;
  EXPECT_LT(changes * 4, misses);
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

// Once it is in the tier below, another thread has it, and its free may ask whether it lies here.
TEST_F(CpuCacheTest, WhatAShrinkOrADrainSentDownLiesHereNoMore) {
  Init(kPlenty);
  AllocateAndFree(small_, 400);
  size_t given = 0;
  transfer_.on_give = [&](SizeClass c, void* const* objects, size_t n) {
    for (size_t i = 0; i < n; ++i) EXPECT_FALSE(cache_.Holds(c, objects[i])) << given;
    given += n;
  };
  cache_.SetShare(size_t{8} << 10);
  const size_t by_shrink = given;
  EXPECT_GT(by_shrink, 0u);
  cache_.Drain(0);
  EXPECT_GT(given, by_shrink);
  transfer_.on_give = nullptr;
}

TEST_F(CpuCacheTest, AllCpusCanBeDrainedAtOnce) {
  Init(kPlenty);
  for (const size_t cpu : {0, 2}) {
    cpus_.current = cpu;
    AllocateAndFree(small_, 500);
  }
  cache_.DrainAll();
  EXPECT_EQ(transfer_.out(), 0u);
}

TEST_F(CpuCacheTest, ADrainThatCannotFenceLosesNothing) {
  Init(kPlenty);
  AllocateAndFree(small_, 500);
  const size_t out = transfer_.out();
  cpus_.fence_fails = true;
  EXPECT_EQ(cache_.Drain(0), 0u);
  EXPECT_EQ(transfer_.out(), out);
  void* p = ops_.Pop(small_);  // it works on
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(ops_.Push(small_, p), PushResult::kPushed);
  cpus_.fence_fails = false;
  EXPECT_GT(cache_.Drain(0), 0u);
  EXPECT_EQ(transfer_.out(), 0u);
}

// A sandbox may end the process for the fence: nothing asks for one, and the slab stays in use.
TEST_F(CpuCacheTest, WhereTheFenceIsForbiddenNothingIsDrainedAndCachesWorkOn) {
  Init(kPlenty);
  cpus_.fence_forbidden = true;
  std::vector<void*> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(Allocate(small_));
  for (void* p : objects) Free(small_, p);
  const size_t held = cache_.Stats(small_).objects;
  EXPECT_GT(held, 0u);
  cache_.DrainAll();
  for (int i = 0; i < 20; ++i) cache_.Tick(2);
  EXPECT_EQ(cpus_.fences, 0u);
  EXPECT_EQ(cache_.Stats(small_).objects, held);
  EXPECT_EQ(cache_.limit(0), kPlenty);
  EXPECT_NE(ops_.Pop(small_), nullptr);
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

TEST_F(CpuCacheTest, OverflowSendsManyDownAtOnce) {
  const size_t batch = InfoOf(small_).batch;
  Init(batch * 64);  // room for one batch in all
  AllocateAndFree(small_, 3 * batch);
  std::vector<void*> held;
  for (size_t i = 0; i < 3 * batch; ++i) held.push_back(Allocate(small_));
  const size_t gives = transfer_.gives;
  const uint64_t misses = cache_.Stats(small_).misses_free;
  for (void* p : held) Free(small_, p);
  EXPECT_GT(cache_.Stats(small_).misses_free, misses);
  EXPECT_GE(transfer_.gives, gives + 1);
  EXPECT_LE(transfer_.gives, gives + 12);  // not single objects
  EXPECT_LE(cache_.Stats(small_).objects, batch);
}

TEST_F(CpuCacheTest, CostlyObjectsOfThisCpuAreGivenUpPastTheTransferCache) {
  Init(kPlenty);
  const SizeClass costly[] = {ClassOfSize(32 << 10), static_cast<SizeClass>(kNumClasses - 1)};
  for (const size_t cpu : {1, 0}) {
    cpus_.current = cpu;
    for (const SizeClass c : costly) AllocateAndFree(c, 3);
    AllocateAndFree(small_, 3);
  }
  const size_t others = cache_.Stats(small_).objects;
  FakeTransfer& below = transfer_;  // the same objects, a tier further down
  cache_.GiveUpCostly(below);
  for (const SizeClass c : costly) {
    EXPECT_EQ(cpus_.slab(0).header(c).fill(), 0u);
    EXPECT_GT(cpus_.slab(1).header(c).fill(), 0u);
  }
  EXPECT_EQ(cache_.Stats(small_).objects, others);
}

TEST_F(CpuCacheTest, TheLastFreedIsNoticedAndNothingChanges) {
  Init(kPlenty);
  void* a = Allocate(small_);
  void* b = Allocate(small_);
  Allocate(small_);  // stays out, so that the class is not full
  Free(small_, a);
  Free(small_, b);
  EXPECT_EQ(ops_.Push(small_, b), PushResult::kSuspect);
  EXPECT_FALSE(cache_.PushSlow(small_, b));
  EXPECT_EQ(ops_.Pop(small_), b);  // asking changed nothing
  EXPECT_EQ(ops_.Pop(small_), a);
}

TEST_F(CpuCacheTest, WithAllLocksTakenNoRoomIsMadeAndNoCpuAppears) {
  Init(kPlenty);
  Allocate(small_);
  const size_t room = cache_.room_bytes(0);
  cache_.VisitLocks([](Lock& l) STRATA_NO_TSA { l.AcquireForFork(); });
  ASSERT_NE(cache_.PopSlow(small_), nullptr);
  EXPECT_EQ(cache_.room_bytes(0), room);
  std::thread elsewhere([&] {
    // Needs a vCPU of its own, and so the activation lock: waits until the locks are released.
    cpus_.current = 1;
    Allocate(small_);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(cache_.active_vcpus(), 1u);
  EXPECT_EQ(cache_.room_bytes(0), room);
  cache_.VisitLocks([](Lock& l) STRATA_NO_TSA { l.ReleaseAfterFork(); });
  elsewhere.join();
  EXPECT_EQ(cache_.active_vcpus(), 2u);
}

}  // namespace
}  // namespace strata::test
