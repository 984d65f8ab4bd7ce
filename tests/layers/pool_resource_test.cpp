// pool_resource: what std::pmr asks of a resource, blocks that change threads, slots of threads
// that are handed on, and that upstream gets back everything.
#include "strata/pool_resource.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../edge/pmr_containers.h"
#include "heap_model.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/fixed.h"
#include "strata/layers/combine/reap.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"

namespace strata {
namespace {

using layers::Fill;
using layers::Intact;
using layers::ModelBlock;

TEST(Inbox, GivesBackWhatOthersReturnedBeforeItAsksBelow) {
  using namespace layers;
  Stack<Fixed<48>, FreeList, Inbox, Count, Bump<>, Mmap> heap;
  auto& inbox = layer<Inbox>(heap);
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(heap.allocate(48));
  std::vector<std::thread> others;
  for (size_t t = 0; t < 2; ++t) {
    others.emplace_back([&, t] {
      for (size_t i = t; i < 1000; i += 2) inbox.give_back(blocks[i]);
    });
  }
  std::set<void*> again;
  for (std::thread& t : others) t.join();
  for (int i = 0; i < 1000; ++i) again.insert(heap.allocate(48));
  EXPECT_EQ(again, std::set<void*>(blocks.begin(), blocks.end()));
  EXPECT_EQ(layer<Count>(heap).counts().allocations, 1000u);
  heap.allocate(48);
  EXPECT_EQ(layer<Count>(heap).counts().allocations, 1001u);
}

TEST(Inbox, ForgetsWithTheBinsAboveIt) {
  using namespace layers;
  Stack<Bins<Steps<16, 64>, FreeList, Inbox>, Bump<>, Mmap> heap;
  heap.bin(0).next().give_back(heap.allocate(16));
  heap.clear();
  void* p = heap.allocate(16);
  EXPECT_NE(heap.allocate(16), p);
}

TEST(Listed, GivesAllBlocksBackAtOnce) {
  using namespace layers;
  Stack<Check, Listed, Count, Mmap> heap;
  RunModel(heap, 2000, 1, [](std::mt19937& r) { return r() % 5000; });
  for (int i = 0; i < 10; ++i) heap.allocate(100);
  EXPECT_EQ(layer<Count>(heap).counts().blocks(), 10u);
  layer<Listed>(heap).clear();
  EXPECT_EQ(layer<Count>(heap).counts().blocks(), 0u);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
}

// Counts what is out, and refuses from a point on.
class Upstream : public std::pmr::memory_resource {
 public:
  std::atomic<size_t> blocks{0};
  std::atomic<size_t> bytes{0};
  std::atomic<bool> refuse{false};

 private:
  void* do_allocate(size_t n, size_t alignment) override {
    if (refuse) throw std::bad_alloc();
    ++blocks;
    bytes += n;
    return std::pmr::new_delete_resource()->allocate(n, alignment);
  }
  void do_deallocate(void* p, size_t n, size_t alignment) override {
    --blocks;
    bytes -= n;
    std::pmr::new_delete_resource()->deallocate(p, n, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

TEST(PoolResource, ServesEveryContainer) {
  Upstream upstream;
  {
    pool_resource pool(&upstream);
    EXPECT_EQ(pool.upstream_resource(), &upstream);
    EXPECT_TRUE(pool.is_equal(pool));
    EXPECT_FALSE(pool.is_equal(upstream));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(ContainersWork(&pool, 1000));
  }
  EXPECT_EQ(upstream.blocks, 0u);
  EXPECT_EQ(upstream.bytes, 0u);
}

// A resource for one thread, which knows when two are in it.
class OneAtATime : public std::pmr::memory_resource {
 public:
  bool was_alone() const { return alone_; }

 private:
  void* do_allocate(size_t n, size_t alignment) override {
    const Inside inside(*this);
    return arena_.allocate(n, alignment);
  }
  void do_deallocate(void* p, size_t n, size_t alignment) override {
    const Inside inside(*this);
    arena_.deallocate(p, n, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  struct Inside {
    explicit Inside(OneAtATime& in) : resource(in) {
      if (resource.inside_++ != 0) resource.alone_ = false;
      std::this_thread::yield();
    }
    ~Inside() { --resource.inside_; }
    OneAtATime& resource;
  };

  std::pmr::monotonic_buffer_resource arena_;
  std::atomic<int> inside_{0};
  std::atomic<bool> alone_{true};
};

TEST(PoolResource, CallsAnUpstreamForOneThreadOneAtATime) {
  OneAtATime upstream;
  pool_resource pool(&upstream);
  std::atomic<bool> whole{true};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<ModelBlock> live;
      for (size_t i = 0; i < 3000; ++i) {
        const size_t size = i % 10 == 0 ? 9000 + i : 2000;  // chunks and large blocks
        live.push_back({static_cast<unsigned char*>(pool.allocate(size)), size,
                        static_cast<unsigned char>(t * 64 + i % 64)});
        Fill(live.back());
      }
      for (const ModelBlock& b : live) {
        if (!Intact(b)) whole = false;
        pool.deallocate(b.p, b.size);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(upstream.was_alone());
  EXPECT_TRUE(whole);
}

TEST(PoolResource, KeepsBlocksApartWholeAndAligned) {
  Upstream upstream;
  pool_resource pool(&upstream);
  std::mt19937 random(1);
  struct Placed {
    ModelBlock block;
    size_t alignment;
  };
  std::vector<Placed> live;
  for (int i = 0; i < 30'000; ++i) {
    if (live.size() < 400 && random() % 5 < 3) {
      const size_t size = random() % 50 == 0 ? random() % 100'000 : random() % 700;
      const size_t alignment = random() % 4 == 0 ? size_t{1} << random() % 13 : 8;
      ModelBlock b{static_cast<unsigned char*>(pool.allocate(size, alignment)), size,
                   static_cast<unsigned char>(i)};
      ASSERT_EQ(reinterpret_cast<uintptr_t>(b.p) % alignment, 0u);
      Fill(b);
      live.push_back({b, alignment});
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(Intact(live.back().block));
      pool.deallocate(live.back().block.p, live.back().block.size, live.back().alignment);
      live.pop_back();
    }
  }
  for (const Placed& one : live) ASSERT_TRUE(Intact(one.block));
  pool.release();
  EXPECT_EQ(upstream.blocks, 0u) << "live blocks, too";
  EXPECT_NE(pool.allocate(100), nullptr) << "and it goes on";
}

// A reap as a resource: blocks have a tag in front, so that one aligned to 64 KiB takes 128.
class OverReap : public std::pmr::memory_resource {
 public:
  size_t held() const { return heap_.held(); }

 private:
  void* do_allocate(size_t n, size_t alignment) override {
    void* p = heap_.allocate(n, alignment);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  void do_deallocate(void* p, size_t, size_t) override { heap_.deallocate(p); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  layers::Stack<layers::Reap<(8 << 10), (128 << 10)>, layers::Mmap> heap_;
};

TEST(PoolResource, TakesLittleMoreOfAReapThanIsAskedFor) {
  OverReap upstream;
  pool_resource pool(&upstream);
  constexpr size_t kBlocks = 150'000, kSize = 64;
  for (size_t i = 0; i < kBlocks; ++i) ASSERT_NE(pool.allocate(kSize), nullptr);
  EXPECT_LE(static_cast<double>(upstream.held()), 1.25 * kBlocks * kSize);
  pool.release();
  EXPECT_LE(upstream.held(), size_t{128} << 10);
  for (size_t i = 0; i < kBlocks; ++i) ASSERT_NE(pool.allocate(kSize), nullptr);
  EXPECT_LE(static_cast<double>(upstream.held()), 1.25 * kBlocks * kSize);
}

TEST(PoolResource, ABlockOfAnotherResourceEndsTheProgram) {
  Upstream upstream;
  pool_resource pool(&upstream);
  ASSERT_NE(pool.allocate(100), nullptr);
  alignas(64) char foreign[128];
  EXPECT_DEATH(pool.deallocate(foreign, 100), "a block of another resource");
}

// Small ones, too: nearly as little as what only grows.
TEST(PoolResource, TakesLittleMoreOfAReapThanWhatOnlyGrows) {
  for (size_t asked = 1 << 10; asked <= size_t{16} << 20; asked *= 4) {
    for (const size_t most : {size_t{64}, size_t{512}, size_t{2000}}) {
      OverReap upstream, of_monotonic;
      pool_resource pool(&upstream);
      std::pmr::monotonic_buffer_resource monotonic(&of_monotonic);
      std::mt19937 random(1);
      for (size_t got = 0; got < asked;) {
        const size_t size = random() % most + 1;
        ASSERT_NE(pool.allocate(size), nullptr);
        ASSERT_NE(monotonic.allocate(size), nullptr);
        got += size;
      }
      EXPECT_LE(static_cast<double>(upstream.held()),
                1.25 * static_cast<double>(of_monotonic.held()) + (16 << 10))
          << asked << " in blocks of up to " << most;
    }
  }
}

TEST(PoolResource, UsesFreedBlocksAgain) {
  Upstream upstream;
  pool_resource pool(&upstream);
  void* p = pool.allocate(100);
  pool.deallocate(p, 100);
  EXPECT_EQ(pool.allocate(100), p);
  const size_t before = upstream.bytes;
  for (int i = 0; i < 100'000; ++i) pool.deallocate(pool.allocate(200), 200);
  EXPECT_EQ(upstream.bytes, before);
}

TEST(PoolResource, RefusesEnormousRequestsAndGoesOnAfterUpstreamFailed) {
  Upstream upstream;
  pool_resource pool(&upstream);
  EXPECT_THROW((void)pool.allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW((void)pool.allocate(SIZE_MAX - 10, 64), std::bad_alloc);
  upstream.refuse = true;
  EXPECT_THROW((void)pool.allocate(10), std::bad_alloc);
  EXPECT_THROW((void)pool.allocate(100'000), std::bad_alloc);
  upstream.refuse = false;
  void* p = pool.allocate(10);
  upstream.refuse = true;
  size_t got = 0;
  EXPECT_THROW(for (;; ++got)(void) pool.allocate(100), std::bad_alloc);
  EXPECT_GT(got, 20u);
  upstream.refuse = false;
  pool.deallocate(p, 10);
  pool.release();
  EXPECT_EQ(upstream.blocks, 0u);
}

// A producer and a consumer: the blocks go home, so that the memory stays that of what is live,
// where pools that keep what is freed to them grow without bound.
TEST(PoolResource, StaysBoundedWhenAnotherThreadFrees) {
  Upstream upstream;
  pool_resource pool(&upstream);
  constexpr size_t kAtOnce = 256, kRounds = 2000;
  std::atomic<void*> handed[kAtOnce] = {};
  std::thread consumer([&] {
    for (size_t round = 0; round < kRounds; ++round) {
      for (auto& place : handed) {
        void* p;
        while ((p = place.exchange(nullptr, std::memory_order_acquire)) == nullptr)
          std::this_thread::yield();
        ASSERT_EQ(*static_cast<size_t*>(p), round);
        pool.deallocate(p, 64 + round % 7 * 16);
      }
    }
  });
  for (size_t round = 0; round < kRounds; ++round) {
    for (auto& place : handed) {
      auto* p = static_cast<size_t*>(pool.allocate(64 + round % 7 * 16));
      *p = round;
      void* empty = nullptr;
      while (!place.compare_exchange_weak(empty, p, std::memory_order_release)) {
        empty = nullptr;
        std::this_thread::yield();
      }
    }
  }
  consumer.join();
  // Seven sizes, of each at most those in flight and those in the inbox.
  EXPECT_LE(upstream.bytes, 2u << 20);
}

TEST(PoolResource, IsUsedByManyThreadsAtOnce) {
  Upstream upstream;
  pool_resource pool(&upstream);
  constexpr size_t kThreads = 4, kPlaces = 512;
  static std::atomic<ModelBlock*> places[kPlaces];
  const auto free_one = [&](ModelBlock* b) {
    EXPECT_TRUE(Intact(*b));
    pool.deallocate(b->p, b->size);
    delete b;
  };
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 20'000; ++i) {
        const size_t size = random() % 40 == 0 ? 20'000 : random() % 500 + 1;
        auto* b = new ModelBlock{static_cast<unsigned char*>(pool.allocate(size)), size,
                                 static_cast<unsigned char>(random())};
        Fill(*b);
        if (ModelBlock* old = places[random() % kPlaces].exchange(b)) free_one(old);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (auto& place : places) {
    if (ModelBlock* b = place.exchange(nullptr)) free_one(b);
  }
  pool.release();
  EXPECT_EQ(upstream.blocks, 0u);
}

TEST(PoolResource, HandsThePoolOfAnEndedThreadOn) {
  Upstream upstream;
  pool_resource pool(&upstream);
  std::thread([&] { pool.deallocate(pool.allocate(50), 50); }).join();
  const size_t after_one = upstream.bytes;
  for (int i = 0; i < 50; ++i) std::thread([&] { pool.deallocate(pool.allocate(50), 50); }).join();
  EXPECT_EQ(upstream.bytes, after_one);
}

// The same addresses are another thread's then.
TEST(PoolResource, ForgetsAtReleaseWhoseMemoryItWas) {
  alignas(4096) static char memory[64 << 10];
  std::pmr::monotonic_buffer_resource upstream(memory, sizeof memory,
                                               std::pmr::null_memory_resource());
  pool_resource pool(&upstream);
  EXPECT_LT(layers::ThreadIndex::index(), layers::ThreadIndex::most);  // not the other's, then
  void* of_other = nullptr;
  std::thread([&] {
    of_other = pool.allocate(50);
    pool.release();
    upstream.release();
    pool.deallocate(pool.allocate(50), 50);
    pool.release();
    upstream.release();
  }).join();
  void* mine = pool.allocate(50);
  EXPECT_EQ(mine, of_other);
  pool.deallocate(mine, 50);
  EXPECT_EQ(pool.allocate(50), mine);
}

TEST(PoolResource, ServesThreadsPastTheLastSlot) {
  Upstream upstream;
  pool_resource pool(&upstream);
  constexpr size_t kThreads = layers::ThreadIndex::most + 20;
  std::atomic<size_t> ready{0};
  std::atomic<size_t> without{0};
  std::vector<void*> blocks(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      if (layers::ThreadIndex::index() == layers::ThreadIndex::most) ++without;
      for (int i = 0; i < 10; ++i) {
        blocks[t] = pool.allocate(100);
        memset(blocks[t], 1, 100);
        if (i != 9) pool.deallocate(blocks[t], 100);
      }
      ++ready;
      while (ready != kThreads) std::this_thread::yield();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GE(without, 20u);
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(std::unique(blocks.begin(), blocks.end()), blocks.end());
  for (void* p : blocks) pool.deallocate(p, 100);
}

// A thread-local object that is destroyed after the slot went back.
TEST(PoolResource, WorksInTheLastDestructorsOfAThread) {
  Upstream upstream;
  pool_resource pool(&upstream);
  std::thread([&] {
    struct Late {
      std::pmr::memory_resource* resource = nullptr;
      void* block = nullptr;
      ~Late() {
        resource->deallocate(block, 30);
        resource->deallocate(resource->allocate(40), 40);
      }
    };
    static thread_local Late late;  // made first, so destroyed last
    late.resource = &pool;
    late.block = pool.allocate(30);
  }).join();
  pool.release();
  EXPECT_EQ(upstream.blocks, 0u);
}

}  // namespace
}  // namespace strata
