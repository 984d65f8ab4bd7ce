// Transfer caches by cache domain over a fake topology: inactive until two domains are in use,
// objects stay in their domain, what lies unused flows back, and nothing is lost among threads.
#include "cache/domain_transfer_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

struct FakeWhere {
  static inline thread_local size_t cpu = 0;
  static size_t Cpu() { return cpu; }
};

CacheTopology TwoDomains() {
  CacheTopology t;
  STRATA_CHECK(ParseCacheDomains("0-3;4-7", t));
  return t;
}

class DomainTransferCacheTest : public testing::Test {
 protected:
  using Shared = TransferCache<FakeTransfer>;

  DomainTransferCacheTest() { Init(TwoDomains()); }
  void Init(const CacheTopology& topology) {
    FakeWhere::cpu = 0;
    shared_.Init(&central_, &memory_.arena());
    cache_.Init(&shared_, &memory_.arena());
    EXPECT_TRUE(cache_.SetTopology(topology));
  }
  std::vector<void*> Take(size_t cpu, size_t n) {
    FakeWhere::cpu = cpu;
    std::vector<void*> out(n);
    size_t got = 0;
    while (got < n) got += cache_.Take(class_, &out[got], n - got);  // a stack gives what it has
    return out;
  }
  void Give(size_t cpu, const std::vector<void*>& objects) {
    FakeWhere::cpu = cpu;
    cache_.Give(class_, objects.data(), objects.size());
  }
  void UseBoth() {
    Give(0, Take(0, 4));
    Give(4, Take(4, 4));
    cache_.Tick();
  }

  TestArena memory_;
  FakeTransfer central_;
  Shared shared_;
  DomainTransferCache<Shared, FakeWhere> cache_;
  const SizeClass class_ = ClassOfSize(64);
};

TEST_F(DomainTransferCacheTest, WithOneDomainItOnlyPassesOn) {
  CacheTopology one;
  ASSERT_TRUE(ParseCacheDomains("0-7", one));
  Init(one);
  const size_t metadata = memory_.arena().used_bytes();
  for (int i = 0; i < 5; ++i) UseBoth();
  EXPECT_EQ(cache_.domains(), 0u);
  EXPECT_GT(shared_.used(class_), 0u);
  EXPECT_EQ(cache_.used(class_), 0u);
  EXPECT_LE(memory_.arena().used_bytes(), metadata + (64 << 10));  // the shared one's stack
}

TEST_F(DomainTransferCacheTest, InactiveUntilTwoDomainsAreInUse) {
  for (int i = 0; i < 5; ++i) {
    Give(1, Take(0, 4));
    cache_.Tick();
  }
  EXPECT_FALSE(cache_.StatsOf(0).active);
  EXPECT_EQ(cache_.used(class_), 0u);
  UseBoth();
  EXPECT_TRUE(cache_.StatsOf(0).active);
  EXPECT_TRUE(cache_.StatsOf(1).active);
  EXPECT_EQ(cache_.StatsOf(1).cpus, 4u);
}

TEST_F(DomainTransferCacheTest, ObjectsComeBackInTheirDomain) {
  UseBoth();
  const std::vector<void*> a = Take(0, 20);
  const std::vector<void*> b = Take(5, 20);
  Give(1, a);
  Give(6, b);
  EXPECT_EQ(cache_.StatsOf(0).objects, 20u);
  EXPECT_EQ(cache_.StatsOf(1).bytes, 20u * 64);
  EXPECT_EQ(cache_.used(class_), 40u);
  EXPECT_EQ(Take(3, 20), a);
  EXPECT_EQ(Take(4, 20), b);
}

TEST_F(DomainTransferCacheTest, ACpuOutsideOfAllDomainsUsesTheSharedOne) {
  UseBoth();
  const size_t shared = shared_.used(class_);
  const size_t domains = cache_.used(class_);
  const std::vector<void*> a = Take(900, 3);
  EXPECT_EQ(shared_.used(class_), shared - 3);
  Give(900, a);
  EXPECT_EQ(cache_.used(class_), domains);
  EXPECT_EQ(shared_.used(class_), shared);
}

TEST_F(DomainTransferCacheTest, AFullDomainPassesOnAndHoldsLessThanTheSharedOne) {
  UseBoth();
  const size_t capacity = decltype(cache_)::Domain::CapacityOf(class_);
  EXPECT_LT(capacity, Shared::CapacityOf(class_));
  for (size_t given = 0; given < capacity + 200; given += 100) {
    std::vector<void*> batch(100);
    ASSERT_EQ(central_.Take(class_, batch.data(), 100), 100u);
    Give(0, batch);
    ASSERT_LE(cache_.used(class_), capacity);
  }
  EXPECT_GT(shared_.used(class_), 100u);
}

TEST_F(DomainTransferCacheTest, WhatLiesUnusedFlowsBack) {
  UseBoth();
  const std::vector<void*> a = Take(0, 20);
  Give(0, a);
  cache_.Tick();
  EXPECT_EQ(cache_.used(class_), 20u);  // it came since the last tick
  Give(0, Take(0, 5));
  cache_.Tick();
  EXPECT_EQ(cache_.used(class_), 5u);
  Give(4, Take(4, 7));
  cache_.Flush();
  EXPECT_EQ(cache_.used(class_), 0u);
}

TEST_F(DomainTransferCacheTest, ADomainThatIsLeftIsEmptiedAndTheOtherSwitchedOff) {
  UseBoth();
  Give(4, Take(4, 30));
  for (int i = 0; i < 20; ++i) {
    Give(0, Take(0, 5));
    cache_.Tick();
  }
  EXPECT_FALSE(cache_.StatsOf(0).active);
  EXPECT_FALSE(cache_.StatsOf(1).active);
  EXPECT_EQ(cache_.used(class_), 0u);
  UseBoth();
  EXPECT_TRUE(cache_.StatsOf(1).active);
}

TEST_F(DomainTransferCacheTest, OneThatIsSwitchedOffKeepsNothingForAnotherTick) {
  UseBoth();
  for (int i = 0; i < 20 && cache_.StatsOf(0).active; ++i) {
    Give(0, Take(0, 5));
    cache_.Tick();
  }
  EXPECT_FALSE(cache_.StatsOf(0).active);
  EXPECT_EQ(cache_.used(class_), 0u);
  Give(0, Take(0, 5));
  EXPECT_EQ(cache_.used(class_), 0u);
}

TEST_F(DomainTransferCacheTest, OneOfThreeIsSwitchedOffAlone) {
  CacheTopology three;
  ASSERT_TRUE(ParseCacheDomains("0-1;2-3;4-5", three));
  Init(three);
  for (int i = 0; i < 20; ++i) {
    for (const size_t cpu : {0, 2, 4}) {
      if (cpu != 4 || i == 0) Give(cpu, Take(cpu, 3));
    }
    cache_.Tick();
    ASSERT_TRUE(i != 0 || cache_.StatsOf(2).active);
  }
  EXPECT_TRUE(cache_.StatsOf(0).active);
  EXPECT_TRUE(cache_.StatsOf(1).active);
  EXPECT_FALSE(cache_.StatsOf(2).active);
}

TEST_F(DomainTransferCacheTest, AForkWaitsForCachesThatAreBeingMade) {
  Give(0, Take(0, 4));
  Give(4, Take(4, 4));
  cache_.VisitLocks([](Lock& l) STRATA_NO_TSA { l.AcquireForFork(); });
  std::atomic<bool> done{false};
  std::thread ticker([&] {
    cache_.Tick();
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(done);
  cache_.VisitLocks([](Lock& l) STRATA_NO_TSA { l.ReleaseAfterFork(); });
  ticker.join();
  EXPECT_TRUE(cache_.StatsOf(0).active);
}

TEST_F(DomainTransferCacheTest, CostlyObjectsAreGivenUpFromDomainsAndTheSharedOne) {
  UseBoth();
  const SizeClass costly = ClassOfSize(32 << 10);
  void* object = nullptr;
  for (const size_t cpu : {0, 4, 900}) {  // the last is in no domain
    FakeWhere::cpu = cpu;
    ASSERT_EQ(central_.Take(costly, &object, 1), 1u);
    cache_.Give(costly, &object, 1);
  }
  ASSERT_EQ(cache_.used(costly), 2u);
  ASSERT_EQ(shared_.used(costly), 1u);
  cache_.GiveUpCostly();
  EXPECT_EQ(cache_.used(costly) + shared_.used(costly), 0u);
}

TEST_F(DomainTransferCacheTest, WithoutMetadataItStaysInactiveAndTriesAgain) {
  Give(0, Take(0, 1));
  Give(4, Take(4, 1));
  memory_.fail = true;
  while (memory_.arena().Allocate(1024, 8) != nullptr) {
  }
  cache_.Tick();
  EXPECT_FALSE(cache_.StatsOf(0).active);
  memory_.fail = false;
  cache_.Tick();
  EXPECT_TRUE(cache_.StatsOf(0).active);
}

TEST_F(DomainTransferCacheTest, ForkTakesEveryLockAndTheCacheWorksOnAfterwards) {
  UseBoth();
  Give(0, Take(0, 5));
  cache_.VisitLocks([](Lock& l) STRATA_NO_TSA { l.AcquireForFork(); });
  std::atomic<bool> done{false};
  std::thread other([&] {
    FakeWhere::cpu = 1;
    void* object = nullptr;
    EXPECT_EQ(cache_.Take(class_, &object, 1), 1u);
    done = true;
    cache_.Give(class_, &object, 1);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(done);
  cache_.VisitLocks([](Lock& l) STRATA_NO_TSA { l.ReleaseAfterFork(); });
  other.join();
  EXPECT_EQ(cache_.StatsOf(0).objects, 5u);
}

// Central list for threads: counts only.
struct CountingCentral {
  std::atomic<size_t> next{1};
  std::atomic<size_t> back{0};
  size_t Take(SizeClass, void** out, size_t n) {
    for (size_t i = 0; i < n; ++i) out[i] = reinterpret_cast<void*>(next.fetch_add(1));
    return n;
  }
  void Give(SizeClass, void* const*, size_t n) { back += n; }
};

// As when a program is short of memory in its first second.
TEST(DomainTransferCacheMemory, ATopologyIsTakenLaterWhereThereWasNone) {
  TestArena memory;
  CountingCentral central;
  TransferCache<CountingCentral> shared;
  shared.Init(&central, &memory.arena());
  DomainTransferCache<TransferCache<CountingCentral>, FakeWhere> cache;
  cache.Init(&shared, &memory.arena());
  memory.fail = true;
  EXPECT_FALSE(cache.SetTopology(TwoDomains()));
  EXPECT_EQ(cache.domains(), 0u);
  memory.fail = false;
  EXPECT_TRUE(cache.SetTopology(TwoDomains()));
  EXPECT_EQ(cache.domains(), 2u);
}

TEST(DomainTransferCacheThreads, NothingIsLostOrDoubled) {
  using Shared = TransferCache<CountingCentral>;
  constexpr int kThreads = 4;
  TestArena memory;
  CountingCentral central;
  Shared shared;
  shared.Init(&central, &memory.arena());
  DomainTransferCache<Shared, FakeWhere> cache;
  cache.Init(&shared, &memory.arena());
  cache.SetTopology(TwoDomains());
  const SizeClass c = ClassOfSize(64);
  std::vector<std::atomic<int>> owner(kThreads * 20'000 * size_t{8});
  std::atomic<int> wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        FakeWhere::cpu = static_cast<size_t>((t + i / 64) % 8);
        void* batch[8];
        const size_t n = cache.Take(c, batch, 1 + static_cast<size_t>(i % 8));
        for (size_t k = 0; k < n; ++k)
          wrong += owner[reinterpret_cast<size_t>(batch[k])].exchange(t) != 0;
        for (size_t k = 0; k < n; ++k)
          wrong += owner[reinterpret_cast<size_t>(batch[k])].exchange(0) != t;
        cache.Give(c, batch, n);
      }
    });
  }
  std::thread ticker([&] {
    while (!stop) {
      cache.Tick();
      std::this_thread::yield();
    }
  });
  for (std::thread& t : threads) t.join();
  stop = true;
  ticker.join();
  EXPECT_EQ(wrong, 0);
  cache.Flush();
  shared.DrainUnused(c, DrainScope::kAll);
  EXPECT_EQ(central.back, central.next - 1);
}

}  // namespace
}  // namespace strata::test
