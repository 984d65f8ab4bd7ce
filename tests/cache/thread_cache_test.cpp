// ThreadCache over a fake tier of real little blocks (its lists run through the objects): slow
// start, overflow, the limit, flushing, links that were overwritten, objects pushed twice, and a
// random program against a model.
#include "cache/thread_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/check.h"

namespace strata::test {
namespace {

// Objects of a few words each, whatever their class; they know their class. The heap as well, whose
// addresses are those blocks.
class BlockTransfer {
 public:
  size_t Take(SizeClass c, void** out, size_t n) {
    ++takes;
    STRATA_CHECK(n != 0 && n <= kMaxBatch);
    for (size_t i = 0; i < n; ++i) {
      if (limit != 0 && out_.size() >= limit) return i;
      std::vector<void*>& pool = pools_[Raw(c)];
      if (pool.empty()) {
        blocks_.push_back(std::make_unique<Block>());
        blocks_.back()->size_class = c;
        known_[blocks_.back().get()] = c;
        pool.push_back(blocks_.back().get());
      }
      out[i] = pool.back();
      pool.pop_back();
      STRATA_CHECK(out_.insert(out[i]).second);
    }
    return n;
  }
  void Give(SizeClass c, void* const* objects, size_t n) {
    ++gives;
    STRATA_CHECK(n != 0 && n <= kMaxBatch);
    for (size_t i = 0; i < n; ++i) {
      STRATA_CHECK(static_cast<Block*>(objects[i])->size_class == c);
      STRATA_CHECK(out_.erase(objects[i]) == 1);
      pools_[Raw(c)].push_back(objects[i]);
    }
  }
  size_t out() const { return out_.size(); }
  bool MayBeObject(SizeClass c, const void* p) const {
    const auto known = known_.find(p);
    return known != known_.end() && known->second == c;
  }
  void ReportOverwritten(void* p) { overwritten.push_back(p); }
  static SizeClass ClassOf(void* p) { return static_cast<Block*>(p)->size_class; }

  size_t takes = 0, gives = 0, limit = 0;
  std::vector<void*> overwritten;

 private:
  struct Block {
    uint64_t link = 0;  // the cache's
    SizeClass size_class = SizeClass::kNone;
  };
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<void*> pools_[kMaxClasses];
  std::set<void*> out_;
  std::unordered_map<const void*, SizeClass> known_;
};

constexpr size_t kLimit = 1 << 20;

class ThreadCacheTest : public testing::Test {
 protected:
  ThreadCacheTest() { cache_.Bind(&transfer_, 7); }
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
  // n objects of the class on its list, the newest last.
  std::vector<void*> Listed(SizeClass c, size_t n) {
    std::vector<void*> objects(n);
    EXPECT_EQ(transfer_.Take(c, objects.data(), n), n);
    for (void* p : objects) EXPECT_TRUE(cache_.Push(c, p));
    return objects;
  }

  BlockTransfer transfer_;
  ThreadCache<BlockTransfer> cache_;
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

TEST_F(ThreadCacheTest, IsLastInFirstOut) {
  void* a = Allocate(small_);
  void* b = Allocate(small_);
  cache_.Push(small_, a);
  cache_.Push(small_, b);
  EXPECT_TRUE(cache_.IsNewest(small_, b));
  EXPECT_FALSE(cache_.IsNewest(small_, a));
  EXPECT_EQ(cache_.Pop(small_), b);
  EXPECT_EQ(cache_.Pop(small_), a);
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

TEST_F(ThreadCacheTest, ScavengeSendsDownHalfOfEachList) {
  for (size_t i = 0; i < 100; ++i)
    cache_.Push(small_, [&] {
      void* p;
      transfer_.Take(small_, &p, 1);
      return p;
    }());
  cache_.Scavenge(transfer_);
  EXPECT_EQ(cache_.lists[Raw(small_)].length, 50u);
  EXPECT_EQ(transfer_.out(), 50u);
  EXPECT_EQ(cache_.bytes.load(), 50u * 64);
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
  // And it works on.
  void* p = Allocate(small_);
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

TEST_F(ThreadCacheTest, AnOverwrittenLinkIsReportedAndNotFollowed) {
  const auto c = small_;
  size_t found = 0;
  for (uint64_t change : {uint64_t{1}, uint64_t{16}, uint64_t{0x100}, uint64_t{1} << 40,
                          uint64_t{1} << 63, ~uint64_t{0}, uint64_t{0x4141414141414141}}) {
    std::vector<void*> objects = Listed(c, 6);
    *static_cast<uint64_t*>(objects[3]) ^= change;
    EXPECT_EQ(cache_.Pop(c), objects[5]);
    EXPECT_EQ(cache_.Pop(c), objects[4]);
    EXPECT_EQ(transfer_.overwritten.size(), found);
    EXPECT_EQ(cache_.Pop(c), objects[3]);
    ASSERT_EQ(transfer_.overwritten.size(), ++found) << change;
    EXPECT_EQ(transfer_.overwritten.back(), objects[3]);
    EXPECT_EQ(cache_.Pop(c), nullptr);  // the rest is out of reach
    EXPECT_EQ(cache_.bytes.load(), 0u);
    EXPECT_EQ(cache_.lists[Raw(c)].length, 0u);
  }
}

TEST_F(ThreadCacheTest, ALinkIsGoodInItsPlaceAndItsCacheAlone) {
  std::vector<void*> objects = Listed(small_, 6);
  *static_cast<uint64_t*>(objects[4]) = *static_cast<uint64_t*>(objects[2]);
  EXPECT_EQ(cache_.Pop(small_), objects[5]);
  EXPECT_EQ(cache_.Pop(small_), objects[4]);
  EXPECT_EQ(transfer_.overwritten, std::vector<void*>{objects[4]});

  ThreadCache<BlockTransfer> other;
  other.Bind(&transfer_, 8);
  EXPECT_TRUE(other.Push(small_, objects[0]));
  EXPECT_TRUE(other.Push(small_, objects[1]));
  const uint64_t link = *static_cast<uint64_t*>(objects[1]);
  EXPECT_EQ(other.Pop(small_), objects[1]);
  EXPECT_TRUE(cache_.Push(small_, objects[2]));
  EXPECT_TRUE(cache_.Push(small_, objects[1]));
  EXPECT_NE(*static_cast<uint64_t*>(objects[1]), link);
  *static_cast<uint64_t*>(objects[1]) = link;
  EXPECT_EQ(cache_.Pop(small_), objects[1]);
  EXPECT_EQ(transfer_.overwritten.size(), 2u);
}

TEST_F(ThreadCacheTest, AnOverwrittenLinkEndsAFlush) {
  std::vector<void*> objects = Listed(small_, 6);
  std::vector<void*> others = Listed(ClassOfSize(1024), 3);
  *static_cast<uint64_t*>(objects[3]) = 0;
  cache_.Flush(transfer_);
  EXPECT_EQ(transfer_.overwritten, std::vector<void*>{objects[3]});
  EXPECT_EQ(transfer_.out(), 3u);  // those behind it
  EXPECT_EQ(cache_.bytes.load(), 0u);
}

TEST_F(ThreadCacheTest, AnObjectInTheListIsNotTakenAgain) {
  std::vector<void*> objects = Listed(small_, 6);
  for (void* p : objects) EXPECT_FALSE(cache_.Push(small_, p));
  EXPECT_EQ(cache_.lists[Raw(small_)].length, 6u);
  for (size_t i = 6; i-- != 0;) EXPECT_EQ(cache_.Pop(small_), objects[i]);
  for (void* p : objects) {
    EXPECT_EQ(*static_cast<uint64_t*>(p), 0u);  // no link is left to be taken for one
    EXPECT_TRUE(cache_.Push(small_, p));
  }
  EXPECT_TRUE(transfer_.overwritten.empty());
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
      ASSERT_EQ(BlockTransfer::ClassOf(p), c);
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
