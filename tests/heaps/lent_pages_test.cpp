// Hugepages lent to CPUs whose threads wait for the page heap: when that begins and ends, that
// blocks keep apart and keep their contents while hugepages come and go under them, and that
// nothing is lost; then the same with threads, which ThreadSanitizer watches.
#include "hugepage/lent_pages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "heaps/pinned_at.h"
#include "heaps/strata.h"
#include "large_block_program.h"
#include "test_kernel.h"

namespace strata::test {
namespace {

using Heap = StrataHeap<TestKernel>;

thread_local size_t t_cpu = 0;
size_t CpuOfThread() { return t_cpu; }
void NoBadFree(BadFree, void*) { ADD_FAILURE() << "a bad free"; }

class LentPagesTest : public testing::Test {
 protected:
  LentPagesTest() {
    TierOptions tiers;
    tiers.cpu_number = CpuOfThread;
    heap_ = std::make_unique<Heap>(kernel_, memory_.arena(), PageHeapOptions{}, NoBadFree, tiers);
    t_cpu = 0;
  }

  void* Take(size_t size) { return heap_->large().Take(size, 16).address; }
  void Give(void* p) { heap_->large().Give(heap_->large().At(p)); }

  // Makes the threads of `cpu` wait for the page heap until hugepages are lent to them, and to them
  // alone.
  void Contend(size_t cpu) {
    heap_->large().ReturnAll();
    std::atomic<bool> stop{false};
    std::thread waiter([&] {
      t_cpu = cpu;
      while (!stop) Give(Take(300'000));
    });
    while (heap_->large().lent() == 0) {
      LockHolder hold(heap_->page_heap().lock());
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    stop = true;
    waiter.join();
  }

  void Tick() {
    kernel_.Advance(1000);
    heap_->Tick(Giving::kOn);
  }

  void ExpectAllGoesBack() {
    EXPECT_EQ(heap_->large().counts().blocks, 0u);
    EXPECT_EQ(heap_->large().counts().requested, 0u);
    EXPECT_EQ(heap_->large().counts().pages, Pages(0));
    heap_->ReleaseNow(SIZE_MAX);
    EXPECT_EQ(heap_->large().lent(), 0u);
    EXPECT_EQ(heap_->page_heap().used(), Pages(0));
    EXPECT_EQ(kernel_.physical_bytes(), 0u);
  }

  TestArena memory_;
  TestKernel kernel_{HugePages(512)};
  std::unique_ptr<Heap> heap_;
};

TEST_F(LentPagesTest, NothingIsLentWithoutContention) {
  std::vector<void*> blocks;
  for (int i = 0; i < 500; ++i) {
    blocks.push_back(Take(300'000 + static_cast<size_t>(i) * 1000));
    if (i % 3 == 0) {
      Give(blocks.back());
      blocks.pop_back();
    }
    EXPECT_EQ(heap_->large().lent(), 0u);
  }
  for (void* p : blocks) Give(p);
  ExpectAllGoesBack();
}

TEST_F(LentPagesTest, AContendingCpuBorrowsAndReturnsWhenItRests) {
  Contend(3);
  const size_t lent = heap_->large().lent();
  EXPECT_GE(lent, 1u);
  void* other = Take(1'500'000);  // of CPU 0, which never waited
  EXPECT_EQ(heap_->large().lent(), lent);
  t_cpu = 3;
  std::vector<void*> blocks;
  for (int i = 0; i < 400; ++i) blocks.push_back(Take(600'000));
  EXPECT_GT(heap_->large().lent(), 100u);
  EXPECT_EQ(heap_->large().counts().blocks, 401u);
  Tick();
  EXPECT_GT(heap_->large().lent(), 100u);  // it took many blocks since
  Tick();
  EXPECT_EQ(heap_->large().lent(), 0u);
  EXPECT_EQ(heap_->large().counts().blocks, 401u);
  // What lies in returned hugepages is the page heap's to take back, and fills them up.
  for (int i = 0; i < 200; ++i) {
    Give(blocks.back());
    blocks.pop_back();
  }
  EXPECT_EQ(heap_->page_heap().used(),
            PagesCeil(1'500'000) + Pages(200 * PagesCeil(600'000).raw()));
  for (void* p : blocks) Give(p);
  Give(other);
  ExpectAllGoesBack();
}

// Statistics and profiles tell the same as if all had been returned, and return nothing.
TEST_F(LentPagesTest, LookingAtTheHeapReturnsNothing) {
  Contend(3);
  t_cpu = 3;
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(Take(600'000 + static_cast<size_t>(i) * 4000));
  for (int i = 0; i < 30; ++i) {
    Give(blocks.back());
    blocks.pop_back();
  }
  const auto states = [&] {
    std::map<size_t, std::pair<size_t, char>> all;
    heap_->large().VisitHugePages([&](HugePageId p, size_t used, size_t, char state, uint32_t) {
      all[p.raw()] = {used, state};
    });
    return all;
  };
  const size_t lent = heap_->large().lent();
  ASSERT_GT(lent, 10u);
  const PageHeapStats before = heap_->large().PageStats();
  const auto states_before = states();
  const PinnedBytes pinned = PinnedAt(*heap_, reinterpret_cast<uintptr_t>(blocks[0]));
  EXPECT_EQ(heap_->large().lent(), lent);
  heap_->large().ReturnAll();
  ASSERT_EQ(heap_->large().lent(), 0u);
  const PageHeapStats after = heap_->large().PageStats();
  EXPECT_EQ(before.used, after.used);
  EXPECT_EQ(before.free_backed, after.free_backed);
  EXPECT_EQ(before.backed, after.backed);
  EXPECT_EQ(before.filler.hugepages, after.filler.hugepages);
  EXPECT_EQ(before.filler.used, after.filler.used);
  EXPECT_EQ(before.filler.free, after.filler.free);
  EXPECT_EQ(before.filler.untouched, after.filler.untouched);
  EXPECT_EQ(before.filler.regular, after.filler.regular);
  EXPECT_EQ(before.filler.sparse, after.filler.sparse);
  EXPECT_EQ(before.cache.hugepages, after.cache.hugepages);
  EXPECT_EQ(states_before, states());
  EXPECT_DOUBLE_EQ(pinned.in_hugepage,
                   PinnedAt(*heap_, reinterpret_cast<uintptr_t>(blocks[0])).in_hugepage);
  for (void* p : blocks) Give(p);
  ExpectAllGoesBack();
}

TEST_F(LentPagesTest, LongAndAlignedBlocksAreNeverLent) {
  Contend(0);
  heap_->large().ReturnAll();
  void* whole = Take(2 << 20);
  void* aligned = heap_->large().Take(300'000, 64 << 10).address;
  EXPECT_EQ(heap_->large().lent(), 0u);
  void* lent = Take(300'000);
  EXPECT_EQ(heap_->large().lent(), 1u);
  Give(whole);
  Give(aligned);
  Give(lent);
  ExpectAllGoesBack();
}

TEST_F(LentPagesTest, BlocksAreResizedWhereverTheyLie) {
  Contend(0);
  heap_->large().ReturnAll();
  for (const bool returned : {false, true}) {
    void* p = Take(300'000);
    EXPECT_EQ(heap_->large().lent(), 1u);
    if (returned) heap_->large().ReturnAll();
    Span* span = heap_->large().At(p);
    EXPECT_EQ(heap_->large().RequestedOf(span), 300'000u);
    ASSERT_TRUE(heap_->large().Resize(span, 900'000));
    EXPECT_EQ(heap_->large().counts().requested, 900'000u);
    void* next = Take(1'000'000);
    EXPECT_FALSE(heap_->large().Resize(span, 5 << 20));
    ASSERT_TRUE(heap_->large().Resize(span, 280'000));
    heap_->large().SetRequested(span, 281'000);
    EXPECT_EQ(heap_->large().RequestedOf(span), 281'000u);
    EXPECT_EQ(heap_->large().counts().pages, PagesCeil(280'000) + PagesCeil(1'000'000));
    Give(p);
    Give(next);
    heap_->large().ReturnAll();
  }
  ExpectAllGoesBack();
}

TEST_F(LentPagesTest, WithoutMemoryForAHugepageTheHeapIsAskedAndThenNullIsGiven) {
  Contend(0);
  std::vector<void*> blocks;
  while (void* p = Take(1'900'000)) blocks.push_back(p);
  EXPECT_GE(blocks.size(), 500u);  // of 512 hugepages
  // What is free lies in lent hugepages, out of the page heap's reach until they are returned.
  Give(blocks.back());
  blocks.pop_back();
  heap_->EmptyCaches();
  EXPECT_EQ(heap_->large().lent(), 0u);
  t_cpu = 1;
  void* p = Take(1'900'000);
  EXPECT_NE(p, nullptr);
  Give(p);
  for (void* b : blocks) Give(b);
  ExpectAllGoesBack();
}

// Records of blocks whose hugepage was returned under them come back to where they were taken.
TEST_F(LentPagesTest, ReturningUnderLiveBlocksUsesUpNoMetadata) {
  Contend(0);
  const auto round = [&] {
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(Take(700'000));
    EXPECT_GT(heap_->large().lent(), 0u);
    heap_->large().ReturnAll();
    for (void* p : blocks) Give(p);
  };
  for (int i = 0; i < 5; ++i) round();
  const size_t used = memory_.arena().used_bytes();
  for (int i = 0; i < 50; ++i) round();
  EXPECT_EQ(memory_.arena().used_bytes(), used);
  ExpectAllGoesBack();
}

// Against a model: contents, overlap, sums; hugepages are lent and returned at random.
TEST_F(LentPagesTest, RandomBlocksOfManyCpusKeepApart) {
  for (size_t cpu = 0; cpu < 3; ++cpu) Contend(cpu);
  LargeBlockProgram program(*heap_, kernel_, 11);
  std::mt19937& random = program.random();
  size_t most_lent = 0;
  for (int step = 0; step < 6000 && !HasFatalFailure(); ++step) {
    t_cpu = random() % 4;  // the last one never contends
    program.Step([&] { return 260'000 + random() % 1'800'000; });
    most_lent = std::max(most_lent, heap_->large().lent());
    if (random() % 200 == 0) heap_->large().ReturnAll();
    if (random() % 1000 == 0) Tick();
    if (random() % 1000 == 0) Contend(random() % 3);
  }
  EXPECT_GT(most_lent, 5u);
  program.GiveAll();
  ExpectAllGoesBack();
}

TEST_F(LentPagesTest, ThreadsBorrowReturnAndFreeEachOthersBlocks) {
  constexpr size_t kThreads = 4;
  constexpr size_t kShared = 64;
  std::atomic<void*> shared[kShared] = {};
  std::atomic<size_t> running{kThreads};
  std::atomic<bool> seen{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      t_cpu = i % 3;
      std::mt19937 random(static_cast<uint32_t>(i));
      for (int step = 0; step < 8000 || !seen; ++step) {
        void* mine = Take(260'000 + random() % 1'700'000);
        if (mine != nullptr && random() % 8 == 0)
          heap_->large().Resize(heap_->large().At(mine), 1 + random() % 1'000'000);
        void* old = shared[random() % kShared].exchange(mine);
        if (old != nullptr) Give(old);
      }
      running.fetch_sub(1);
    });
  }
  size_t most_lent = 0;
  while (running != 0) {
    most_lent = std::max(most_lent, heap_->large().lent());
    {
      LockHolder hold(heap_->page_heap().lock());  // so that somebody waits
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    seen = most_lent > 8;
    if (seen) heap_->large().ReturnAll();
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(most_lent, 8u);
  for (auto& p : shared) {
    if (void* block = p.load()) Give(block);
  }
  ExpectAllGoesBack();
}

}  // namespace
}  // namespace strata::test
