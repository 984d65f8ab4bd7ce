// ThreadCache over a fake tier: slow start, overflow, the limit, flushing, memory that is refused,
// an object pushed twice, a cache that serves another thread, and a random program against a model.
#include "cache/thread_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "../hugepage/test_arena.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

constexpr size_t kLimit = 1 << 20;

class ThreadCacheTest : public testing::Test {
 protected:
  ThreadCacheTest() { cache_.Bind(memory_.arena()); }
  void* Allocate(SizeClass c) {
    void* p = cache_.Pop(c);
    return p != nullptr ? p : cache_.PopSlow(c, transfer_);
  }
  bool Free(SizeClass c, void* p, size_t limit = kLimit) {
    return cache_.HasRoom(c, limit) ? cache_.Push(c, p) : cache_.PushSlow(c, p, transfer_, limit);
  }
  // By the lengths, which FlushGivesEverythingBack holds against the lists themselves.
  size_t ListedBytes() const {
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i)
      bytes += cache_.lists[i].length * InfoOf(static_cast<SizeClass>(i)).size;
    return bytes;
  }

  TestArena memory_;
  FakeTransfer transfer_;
  ThreadCache cache_;
  const SizeClass small_ = ClassOfSize(64);
};

TEST_F(ThreadCacheTest, StartsSlowlyAndGrowsToBatches) {
  std::vector<size_t> taken;
  for (size_t i = 0; i < 2000; ++i) {
    const size_t before = transfer_.out();
    Allocate(small_);
    if (transfer_.out() != before) taken.push_back(transfer_.out() - before);
  }
  ASSERT_GE(taken.size(), 8u);
  EXPECT_EQ(taken[0], 1u);  // a thread that wants one object costs one
  EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
  EXPECT_EQ(taken.back(), InfoOf(small_).batch);
  EXPECT_EQ(cache_.misses_alloc.load(), taken.size());
  EXPECT_EQ(cache_.hits.load(), 2000 - taken.size());
}

TEST_F(ThreadCacheTest, IsLastInFirstOutAndKnowsTheNewest) {
  std::vector<void*> held;
  for (int i = 0; i < 20; ++i) held.push_back(Allocate(small_));
  for (void* p : held) ASSERT_TRUE(Free(small_, p));
  EXPECT_FALSE(cache_.Push(small_, held.back()));
  EXPECT_FALSE(cache_.PushSlow(small_, held.back(), transfer_, kLimit));
  for (size_t i = held.size(); i-- != 0;) EXPECT_EQ(cache_.Pop(small_), held[i]);
}

TEST_F(ThreadCacheTest, AThreadThatOnlyFreesKeepsFew) {
  std::vector<void*> objects(kMaxBatch);
  for (size_t round = 0; round < 100; ++round) {
    ASSERT_EQ(transfer_.Take(small_, objects.data(), kMaxBatch), kMaxBatch);
    for (void* p : objects) Free(small_, p);
    ASSERT_LE(cache_.lists[Raw(small_)].length, size_t{InfoOf(small_).batch} * 8);
    ASSERT_EQ(transfer_.out(), cache_.lists[Raw(small_)].length);
  }
  EXPECT_GT(cache_.misses_free.load(), 0u);
}

TEST_F(ThreadCacheTest, TheLimitHoldsOverAllClasses) {
  constexpr size_t kSmallLimit = 64 << 10;
  std::mt19937 random(1);
  std::vector<std::pair<SizeClass, void*>> held;
  for (size_t i = 0; i < 5000; ++i) {
    const auto c = static_cast<SizeClass>(1 + random() % (kNumClasses - 1));
    held.emplace_back(c, Allocate(c));
  }
  for (const auto& [c, p] : held) {
    const size_t before = cache_.bytes.load();
    Free(c, p, kSmallLimit);
    // The last object may pass it, and so may refills; each free beyond then halves what is held.
    ASSERT_LE(cache_.bytes.load(), std::max(kSmallLimit, before / 2) + InfoOf(c).size);
  }
  EXPECT_EQ(cache_.bytes.load(), ListedBytes());
}

TEST_F(ThreadCacheTest, ScavengeSendsDownTheOlderHalfOfEachList) {
  std::vector<void*> held;
  for (int i = 0; i < 200; ++i) held.push_back(Allocate(small_));
  for (void* p : held) Free(small_, p);
  const size_t length = cache_.lists[Raw(small_)].length;
  ASSERT_GT(length, 50u);
  cache_.Scavenge(transfer_);
  EXPECT_EQ(cache_.lists[Raw(small_)].length, length / 2);
  EXPECT_EQ(transfer_.out(), length / 2);
  EXPECT_EQ(cache_.bytes.load(), length / 2 * 64);
  for (size_t i = 0; i < length / 2; ++i) EXPECT_EQ(cache_.Pop(small_), held[held.size() - 1 - i]);
}

// Once it is in the tier below, another thread has it, and its free may ask whether it lies here.
TEST_F(ThreadCacheTest, WhatWasSentDownLiesHereNoMore) {
  size_t gives = 0;
  transfer_.on_give = [&](SizeClass c, void* const* objects, size_t n) {
    for (size_t i = 0; i < n; ++i) EXPECT_FALSE(cache_.Holds(c, objects[i])) << gives;
    ++gives;
  };
  std::vector<void*> held(10'000);
  for (void*& p : held) p = Allocate(small_);
  for (void* p : held) Free(small_, p);
  const size_t by_overflow = gives;
  EXPECT_GT(by_overflow, 0u);
  cache_.Scavenge(transfer_);
  const size_t by_scavenge = gives - by_overflow;
  EXPECT_GT(by_scavenge, 0u);
  cache_.Flush(transfer_);
  EXPECT_GT(gives - by_overflow, by_scavenge);
  transfer_.on_give = nullptr;
}

TEST_F(ThreadCacheTest, AScavengeLeavesRoomForABatch) {
  const size_t batch = InfoOf(small_).batch;
  std::vector<void*> held;
  for (size_t i = 0; i < 8 * batch; ++i) held.push_back(Allocate(small_));
  cache_.Scavenge(transfer_);
  for (void* p : held) Free(small_, p);
  EXPECT_LE(cache_.lists[Raw(small_)].length, batch);
}

TEST_F(ThreadCacheTest, AThreadThatOnlyAllocatedKeepsFewOfWhatItFrees) {
  std::vector<void*> held;
  for (size_t i = 0; i < 10'000; ++i) held.push_back(Allocate(small_));
  for (void* p : held) Free(small_, p);
  EXPECT_LE(cache_.lists[Raw(small_)].length, size_t{InfoOf(small_).batch} * 8);
}

TEST_F(ThreadCacheTest, FlushGivesEverythingBack) {
  for (size_t size : {8, 64, 1024, 262144}) {
    const SizeClass c = ClassOfSize(size);
    std::vector<void*> held;
    for (size_t i = 0; i < 300; ++i) held.push_back(Allocate(c));
    for (void* p : held) Free(c, p, SIZE_MAX);
  }
  EXPECT_GT(transfer_.out(), 0u);
  cache_.Flush(transfer_);
  EXPECT_EQ(transfer_.out(), 0u);
  EXPECT_EQ(cache_.bytes.load(), 0u);
  // And it works on, slowly at first.
  void* p = Allocate(small_);
  EXPECT_EQ(transfer_.out(), 1u);
  Free(small_, p);
  EXPECT_EQ(cache_.Pop(small_), p);
}

TEST_F(ThreadCacheTest, AFlushThatOthersWantComesWithTheNextMiss) {
  const SizeClass other = ClassOfSize(1024);
  const auto fill = [&] {
    std::vector<void*> objects;
    for (int i = 0; i < 500; ++i) objects.push_back(Allocate(small_));
    for (void* p : objects) Free(small_, p);
    ASSERT_GT(cache_.lists[Raw(small_)].length, 50u);
    cache_.flush_wanted = true;
  };
  fill();
  void* p = Allocate(other);
  EXPECT_EQ(transfer_.out(), 1u);
  EXPECT_FALSE(cache_.flush_wanted);
  fill();
  cache_.PushSlow(other, p, transfer_, kLimit);
  EXPECT_EQ(transfer_.out(), 0u);
  EXPECT_FALSE(cache_.flush_wanted);
}

TEST_F(ThreadCacheTest, OutOfMemoryIsNullAndNothingIsLost) {
  transfer_.limit = 10;
  std::vector<void*> held;
  while (void* p = Allocate(small_)) held.push_back(p);
  EXPECT_EQ(held.size(), 10u);
  for (void* p : held) Free(small_, p);
  cache_.Flush(transfer_);
  EXPECT_EQ(transfer_.out(), 0u);
}

TEST_F(ThreadCacheTest, WithoutMemoryForItsStacksItPassesEverythingOn) {
  memory_.fail = true;
  std::vector<void*> held;
  for (int i = 0; i < 100; ++i) held.push_back(Allocate(small_));
  EXPECT_FALSE(std::count(held.begin(), held.end(), nullptr));
  for (void* p : held) ASSERT_TRUE(Free(small_, p));
  EXPECT_EQ(transfer_.out(), 0u);
  memory_.fail = false;
  Free(small_, Allocate(small_));
  EXPECT_EQ(cache_.lists[Raw(small_)].length, 1u);
}

TEST_F(ThreadCacheTest, AnotherThreadsLifeNeedsNoMemoryForStacksAgain) {
  const auto live = [&] {
    std::vector<void*> held;
    for (int i = 0; i < 1000; ++i) held.push_back(Allocate(small_));
    for (void* p : held) Free(small_, p);
    cache_.Flush(transfer_);
  };
  live();
  cache_.flush_wanted = true;  // of the thread that ended
  cache_.ForgetCounts();
  EXPECT_FALSE(cache_.flush_wanted);
  EXPECT_EQ(cache_.hits.load() + cache_.misses_alloc.load() + cache_.misses_free.load(), 0u);
  const size_t used = memory_.arena().used_bytes();
  for (int i = 0; i < 10; ++i) live();
  EXPECT_EQ(memory_.arena().used_bytes(), used);
}

TEST_F(ThreadCacheTest, RandomProgramAgainstAModel) {
  std::mt19937 random(11);
  std::set<void*> held;
  std::vector<std::pair<SizeClass, void*>> order;
  for (int step = 0; step < 100'000; ++step) {
    // Phases that mostly take, then mostly free.
    if (random() % 8 < (step / 1000 % 2 == 0 ? 5u : 3u)) {
      const auto c = ClassOfSize(1 + random() % (random() % 4 == 0 ? 200'000 : 300));
      void* p = Allocate(c);
      ASSERT_EQ(FakeTransfer::ClassOf(p), c);
      ASSERT_TRUE(held.insert(p).second);
      order.emplace_back(c, p);
    } else if (!order.empty()) {
      const size_t at = random() % order.size();
      held.erase(order[at].second);
      Free(order[at].first, order[at].second);
      order[at] = order.back();
      order.pop_back();
    }
    if (step % 5000 == 0) {
      ASSERT_EQ(cache_.bytes.load(), ListedBytes());
    }
    if (step % 20'000 == 19'999) cache_.Scavenge(transfer_);
  }
  for (const auto& [c, p] : order) Free(c, p);
  cache_.Flush(transfer_);
  EXPECT_EQ(transfer_.out(), 0u);
}

}  // namespace
}  // namespace strata::test
