// TransferCache over a fake central list: whole batches, capacity, draining of what lies unused,
// and threads that pass objects through it.
#include "cache/transfer_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

using Transfer = TransferCache<FakeTransfer>;

class TransferCacheTest : public testing::Test {
 protected:
  TransferCacheTest() { cache_.Init(&central_, &memory_.arena()); }

  std::vector<void*> Take(SizeClass c, size_t n) {
    std::vector<void*> out(n);
    out.resize(cache_.Take(c, out.data(), n));
    return out;
  }
  void Give(SizeClass c, const std::vector<void*>& objects) {
    cache_.Give(c, objects.data(), objects.size());
  }
  void GiveNew(SizeClass c, size_t n) {
    std::vector<void*> objects(n);
    central_.Take(c, objects.data(), n);
    Give(c, objects);
  }

  TestArena memory_;
  FakeTransfer central_;
  Transfer cache_;
  const SizeClass small_ = ClassOfSize(64);
};

TEST_F(TransferCacheTest, CapacityIsTwoBatchesAtLeastAndOfCostlyClassesFourMebibytes) {
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    const size_t n = Transfer::CapacityOf(c);
    EXPECT_LE(n, InfoOf(c).batch * size_t{32});
    if (IsCostly(c)) {
      EXPECT_LE(n, 64u);
      EXPECT_LE(n * InfoOf(c).size, 4u << 20);
      EXPECT_GE(n, InfoOf(c).batch);
    } else {
      EXPECT_GE(n, InfoOf(c).batch * size_t{2});
      EXPECT_TRUE(n * InfoOf(c).size <= 192 << 10 || n == InfoOf(c).batch * size_t{2});
    }
  }
}

TEST_F(TransferCacheTest, WhatIsGivenIsTakenLastInFirstOut) {
  const std::vector<void*> a = Take(small_, 10);
  const std::vector<void*> b = Take(small_, 5);
  EXPECT_EQ(central_.takes, 2u);
  Give(small_, a);
  Give(small_, b);
  EXPECT_EQ(cache_.used(small_), 15u);
  EXPECT_EQ(central_.gives, 0u);
  EXPECT_EQ(Take(small_, 5), b);
  EXPECT_EQ(Take(small_, 4), (std::vector<void*>{a.begin() + 6, a.end()}));
  // Fewer than asked for are handed out before the lock of the tier below is touched.
  EXPECT_EQ(Take(small_, 50).size(), 6u);
  EXPECT_EQ(central_.takes, 2u);
  EXPECT_EQ(cache_.used(small_), 0u);
  EXPECT_EQ(Take(small_, 3).size(), 3u);
  EXPECT_EQ(central_.takes, 3u);
}

TEST_F(TransferCacheTest, ClassesDoNotMix) {
  const SizeClass other = ClassOfSize(1024);
  Give(small_, Take(small_, 8));
  Give(other, Take(other, 8));
  for (void* p : Take(small_, 8)) EXPECT_EQ(FakeTransfer::ClassOf(p), small_);
  for (void* p : Take(other, 8)) EXPECT_EQ(FakeTransfer::ClassOf(p), other);
}

TEST_F(TransferCacheTest, AFullCachePassesWholeBatchesDown) {
  const size_t capacity = Transfer::CapacityOf(small_);
  for (size_t given = 0; given < capacity + 200; given += 100) {
    std::vector<void*> batch(100);
    ASSERT_EQ(central_.Take(small_, batch.data(), 100), 100u);
    Give(small_, batch);
    ASSERT_LE(cache_.used(small_), capacity);
    ASSERT_EQ(cache_.used(small_), central_.out());
  }
  EXPECT_GT(cache_.used(small_), capacity - 100);
  EXPECT_GT(central_.gives, 0u);
}

TEST_F(TransferCacheTest, WithoutMetadataObjectsGoStraightDown) {
  memory_.fail = true;
  const std::vector<void*> a = Take(small_, 4);
  Give(small_, a);
  EXPECT_EQ(central_.out(), 0u);
  EXPECT_EQ(cache_.used(small_), 0u);
  memory_.fail = false;
  Give(small_, Take(small_, 4));
  EXPECT_EQ(cache_.used(small_), 4u);
}

TEST_F(TransferCacheTest, DrainUnusedSendsDownWhatWasNotNeededSinceTheLast) {
  std::vector<void*> objects = Take(small_, 128);
  const std::vector<void*> more = Take(small_, 100);
  Give(small_, objects);
  Give(small_, more);
  cache_.DrainUnused(small_, DrainScope::kUnused);  // the low water was 0
  EXPECT_EQ(cache_.used(small_), 228u);
  const std::vector<void*> used = Take(small_, 28);
  Give(small_, used);
  cache_.DrainUnused(small_, DrainScope::kUnused);
  EXPECT_EQ(cache_.used(small_), 28u);
  EXPECT_EQ(central_.out(), 28u);
  // The most recently given stay.
  EXPECT_EQ(Take(small_, 28), used);
}

TEST_F(TransferCacheTest, WhatCameAfterADrainIsLeftByTheNext) {
  GiveNew(small_, 100);
  cache_.DrainUnused(small_, DrainScope::kUnused);
  cache_.DrainUnused(small_, DrainScope::kUnused);
  ASSERT_EQ(cache_.used(small_), 0u);
  GiveNew(small_, 50);
  cache_.DrainUnused(small_, DrainScope::kUnused);
  EXPECT_EQ(cache_.used(small_), 50u);
}

TEST_F(TransferCacheTest, WhatIsTakenDuringADrainIsNotSentDown) {
  GiveNew(small_, kMaxBatch);
  std::vector<void*> taken;
  central_.on_call = [&] {  // while the first part of it goes down
    central_.on_call = nullptr;
    taken = Take(small_, kMaxBatch);
  };
  cache_.DrainUnused(small_, DrainScope::kAll);
  EXPECT_EQ(taken.size(), kMaxBatch / 2);
  EXPECT_EQ(central_.out(), taken.size());
  for (void* p : taken) EXPECT_TRUE(central_.IsOut(p));
}

TEST_F(TransferCacheTest, DrainUnusedOfEverything) {
  Give(small_, Take(small_, 128));
  cache_.DrainUnused(small_, DrainScope::kAll);
  EXPECT_EQ(cache_.used(small_), 0u);
  EXPECT_EQ(central_.out(), 0u);
  cache_.DrainUnused(small_, DrainScope::kAll);
  cache_.DrainUnused(ClassOfSize(8), DrainScope::kAll);  // never used
}

// A central list that many threads may call, of objects 1 to n.
class LockedCentral {
 public:
  explicit LockedCentral(size_t n) : pool_(n) { std::iota(pool_.begin(), pool_.end(), size_t{1}); }
  size_t Take(SizeClass, void** out, size_t n) {
    const std::lock_guard hold(mutex_);
    n = std::min(n, pool_.size());
    for (size_t i = 0; i < n; ++i) {
      out[i] = reinterpret_cast<void*>(pool_.back());
      pool_.pop_back();
    }
    return n;
  }
  void Give(SizeClass, void* const* objects, size_t n) {
    const std::lock_guard hold(mutex_);
    for (size_t i = 0; i < n; ++i) pool_.push_back(reinterpret_cast<size_t>(objects[i]));
  }
  std::vector<size_t>& pool() { return pool_; }

 private:
  std::mutex mutex_;
  std::vector<size_t> pool_;
};

TEST(TransferCacheThreads, NothingIsLostOrDoubled) {
  constexpr size_t kObjects = 6000;
  constexpr int kThreads = 4;
  TestArena memory;
  LockedCentral central(kObjects);
  TransferCache<LockedCentral> cache;
  cache.Init(&central, &memory.arena());
  const SizeClass c = ClassOfSize(64);
  std::vector<std::atomic<int>> owner(kObjects + 1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint32_t random = static_cast<uint32_t>(t) * 2654435761u;
      for (int i = 0; i < 5000; ++i) {
        random = random * 1664525 + 1013904223;
        void* batch[kMaxBatch];
        const size_t n = cache.Take(c, batch, 1 + (random >> 16) % kMaxBatch);
        for (size_t k = 0; k < n; ++k)
          wrong += owner[reinterpret_cast<size_t>(batch[k])].exchange(t) != 0;
        for (size_t k = 0; k < n; ++k)
          wrong += owner[reinterpret_cast<size_t>(batch[k])].exchange(0) != t;
        if (n != 0) cache.Give(c, batch, n);
        if (i % 97 == 0) cache.DrainUnused(c, i % 2 == 0 ? DrainScope::kAll : DrainScope::kUnused);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  cache.DrainUnused(c, DrainScope::kAll);
  std::sort(central.pool().begin(), central.pool().end());
  ASSERT_EQ(central.pool().size(), kObjects);
  for (size_t i = 0; i < kObjects; ++i) ASSERT_EQ(central.pool()[i], i + 1);
}

// Two threads find what one of them may have, and wait for the lock.
TEST(TransferCacheThreads, WhoWaitedForTheLockLooksAgain) {
  TestArena memory;
  LockedCentral central(10'000);
  TransferCache<LockedCentral> cache;
  cache.Init(&central, &memory.arena());
  const SizeClass c = ClassOfSize(64);
  const size_t capacity = TransferCache<LockedCentral>::CapacityOf(c);
  const auto give = [&] {
    void* batch[kMaxBatch];
    cache.Give(c, batch, central.Take(c, batch, kMaxBatch));
  };
  give();
  Lock* of_class = nullptr;  // the only one made so far, behind the one to make any
  cache.VisitLocks([&](Lock& l) { of_class = &l; });
  const auto meet = [&](auto run) {
    std::thread threads[2];
    {
      LockHolder hold(*of_class);
      for (std::thread& t : threads) t = std::thread(run);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (std::thread& t : threads) t.join();
  };
  while (cache.used(c) + 2 * kMaxBatch <= capacity) give();
  const size_t before = cache.used(c);
  meet(give);
  EXPECT_EQ(cache.used(c), before + kMaxBatch);

  void* one = nullptr;
  std::atomic<size_t> taken{0};
  cache.DrainUnused(c, DrainScope::kAll);
  cache.Give(c, &one, central.Take(c, &one, 1));
  meet([&] {
    void* object = nullptr;
    taken += cache.Take(c, &object, 1);
  });
  EXPECT_EQ(taken, 2u);
}

TEST(TransferCacheThreads, WhoGiveAtOnceMakeOneStack) {
  TestArena memory;
  LockedCentral central(10'000);
  TransferCache<LockedCentral> cache;
  cache.Init(&central, &memory.arena());
  const SizeClass c = ClassOfSize(64);
  std::vector<Lock*> locks;
  const auto visit = [&] { cache.VisitLocks([&](Lock& l) { locks.push_back(&l); }); };
  visit();
  ASSERT_EQ(locks.size(), 1u);  // the one to make stacks
  std::thread threads[2];
  {
    LockHolder hold(*locks[0]);
    for (std::thread& t : threads) {
      t = std::thread([&] {
        void* one = nullptr;
        cache.Give(c, &one, central.Take(c, &one, 1));
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cache.used(c), 2u);
  locks.clear();
  visit();
  EXPECT_EQ(locks.size(), 2u);
}

// What lies free moves in batches longer than what is taken off spans at once.
TEST_F(TransferCacheTest, NoMoreIsCarvedAtOnceThanTheClassWants) {
  const auto c = static_cast<SizeClass>(kNumClasses - 1);
  ASSERT_LT(InfoOf(c).carved, InfoOf(c).batch);
  const std::vector<void*> carved = Take(c, InfoOf(c).batch);
  EXPECT_EQ(carved.size(), InfoOf(c).carved);
  std::vector<void*> more = Take(c, InfoOf(c).carved);
  more.insert(more.end(), carved.begin(), carved.end());
  Give(c, more);
  EXPECT_EQ(Take(c, more.size()).size(), more.size());
}

TEST_F(TransferCacheTest, GivingUpTheCostlyClassesLeavesTheOthers) {
  const SizeClass costly = ClassOfSize(32 << 10);
  Give(small_, Take(small_, 10));
  Give(costly, Take(costly, 2));
  cache_.GiveUpCostly();
  EXPECT_EQ(cache_.used(costly), 0u);
  EXPECT_EQ(cache_.used(small_), 10u);
  EXPECT_EQ(central_.gives, 1u);
}

TEST_F(TransferCacheTest, GivingUpHoldsNobodyUpAndBeginsWithTheLargest) {
  const auto used = [this] {
    size_t sum = 0;
    for (size_t i = 1; i < kNumClasses; ++i) sum += cache_.used(static_cast<SizeClass>(i));
    return sum;
  };
  for (size_t i = 1; i < kNumClasses; ++i) {
    if (IsCostly(static_cast<SizeClass>(i))) GiveNew(static_cast<SizeClass>(i), 8);
  }
  const size_t before = used();
  ASSERT_GT(before, 100u);
  cache_.GiveUpCostly();
  EXPECT_EQ(used(), before - 64);
  EXPECT_EQ(cache_.used(static_cast<SizeClass>(kNumClasses - 1)), 0u);
}

}  // namespace
}  // namespace strata::test
