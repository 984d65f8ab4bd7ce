// Blocks of a run each: that they keep apart and keep their contents while they are taken, resized
// and given back, that the counts are those of a model, and the same by many threads, which
// ThreadSanitizer watches.
#include "span/large_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "heaps/strata.h"
#include "large_block_program.h"
#include "test_kernel.h"

namespace strata::test {
namespace {

using Heap = StrataHeap<TestKernel>;

class LargeBlocksTest : public testing::Test {
 protected:
  LargeBlocksTest() {
    heap_ = std::make_unique<Heap>(kernel_, memory_.arena(), PageHeapOptions{},
                                   [](BadFree, void*) { ADD_FAILURE() << "a bad free"; });
  }

  void* Take(size_t size) { return heap_->large().Take(size, 16).address; }
  void Give(void* p) { heap_->large().Give(heap_->large().At(p)); }
  size_t OffsetInPage(const void* p) const {
    return (reinterpret_cast<uintptr_t>(p) - kernel_.base()) % kPageSize;
  }
  bool Resize(void* p, size_t size) { return heap_->large().Resize(heap_->large().At(p), size); }

  void ExpectAllGoesBack() {
    EXPECT_EQ(heap_->large().counts().blocks, 0u);
    EXPECT_EQ(heap_->large().counts().requested, 0u);
    EXPECT_EQ(heap_->large().counts().pages, Pages(0));
    heap_->ReleaseNow(SIZE_MAX);
    EXPECT_EQ(heap_->page_heap().used(), Pages(0));
    EXPECT_EQ(kernel_.physical_bytes(), 0u);
  }

  TestArena memory_;
  TestKernel kernel_{HugePages(512)};
  std::unique_ptr<Heap> heap_;
};

TEST_F(LargeBlocksTest, EachTakingAndGivingCounts) {
  void* p = Take(300'000);
  void* q = Take(5 << 20);
  Give(p);
  EXPECT_EQ(heap_->large().counts().moves, 3u);
  EXPECT_EQ(heap_->large().counts().blocks, 1u);
  EXPECT_EQ(heap_->large().counts().pages, PagesCeil(5 << 20));
  Give(q);
  EXPECT_EQ(heap_->large().counts().moves, 4u);
  ExpectAllGoesBack();
}

// A heap that gives large blocks back at their free, as the process's does.
class PromptBlocksTest : public LargeBlocksTest {
 protected:
  PromptBlocksTest() : PromptBlocksTest(PageHeapOptions{.prompt_release = true}) {}
  explicit PromptBlocksTest(const PageHeapOptions& options) {
    heap_ = std::make_unique<Heap>(kernel_, memory_.arena(), options,
                                   [](BadFree, void*) { ADD_FAILURE() << "a bad free"; });
  }
  void* TakeAndWrite(size_t size) {
    void* p = Take(size);
    kernel_.Touch(p, size, 1);
    return p;
  }
  // How often memory went back in so many rounds of what a program does.
  template <class F>
  size_t ReleasesIn(int rounds, F round) {
    size_t releases = 0;
    for (int i = 0; i < rounds; ++i) {
      const size_t before = heap_->page_heap().Stats().released_total;
      round();
      releases += heap_->page_heap().Stats().released_total != before;
    }
    return releases;
  }
  static constexpr size_t kSize = 10 * kHugePageSize;
};

TEST_F(PromptBlocksTest, ExactlyTheBlockGoesBack) {
  void* small = TakeAndWrite(3 * kHugePageSize);
  void* between = TakeAndWrite(kHugePageSize);
  void* large = TakeAndWrite(kSize);
  Give(small);
  EXPECT_EQ(kernel_.physical_bytes(), kSize + kHugePageSize);
  TakeAndWrite(3 * kHugePageSize);
  Give(large);
  EXPECT_EQ(kernel_.physical_bytes(), 4 * kHugePageSize);
  EXPECT_TRUE(kernel_.Holds(between, kHugePageSize, 1));
}

TEST_F(PromptBlocksTest, AProgramThatWorksInRoundsKeepsItsMemory) {
  EXPECT_LE(ReleasesIn(100, [&] { Give(TakeAndWrite(kSize)); }), 6u);
  EXPECT_EQ(heap_->page_heap().free_backed(), PagesOf(HugePages(10)));
}

TEST_F(PromptBlocksTest, SoDoesOneWhoseBlocksGrowInPlace) {
  EXPECT_LE(ReleasesIn(100,
                       [&] {
                         void* p = TakeAndWrite(kHugePageSize);
                         for (size_t n = 2; n <= 16; n *= 2)
                           ASSERT_TRUE(Resize(p, n * kHugePageSize));
                         kernel_.Touch(p, 16 * kHugePageSize, 1);
                         Give(p);
                       }),
            8u);
}

TEST_F(PromptBlocksTest, SoDoesOneThatCutsItsBlocksDown) {
  EXPECT_LE(ReleasesIn(100,
                       [&] {
                         void* p = TakeAndWrite(kSize);
                         ASSERT_TRUE(Resize(p, kHugePageSize));
                         Give(p);
                       }),
            12u);
}

TEST_F(PromptBlocksTest, SoDoesOneThatAligns) {
  EXPECT_LE(ReleasesIn(100,
                       [&] {
                         void* p = heap_->large().Take(kSize, 2 * kHugePageSize).address;
                         kernel_.Touch(p, kSize, 1);
                         Give(p);
                       }),
            8u);
}

TEST_F(PromptBlocksTest, FreesInARowGiveBackTwiceTheLargest) {
  std::vector<void*> all;
  for (int i = 0; i < 16; ++i) all.push_back(TakeAndWrite(kSize));
  for (void* p : all) Give(p);
  EXPECT_EQ(kernel_.physical_bytes(), 14 * kSize);
}

class KeepingBlocksTest : public PromptBlocksTest {
 protected:
  KeepingBlocksTest()
      : PromptBlocksTest(PageHeapOptions{.release = false, .prompt_release = true}) {}
};

TEST_F(KeepingBlocksTest, NothingGoesBackAtOnceWhereNothingShall) {
  Give(TakeAndWrite(kSize));
  EXPECT_EQ(kernel_.physical_bytes(), kSize);
}

TEST_F(LargeBlocksTest, OneThatIsResizedInPlaceCountsAsItIs) {
  void* p = Take(300'000);
  Span* span = heap_->large().At(p);
  EXPECT_EQ(heap_->large().RequestedOf(span), 300'000u);
  ASSERT_TRUE(Resize(p, 900'000));
  EXPECT_EQ(heap_->large().counts().requested, 900'000u);
  EXPECT_EQ(heap_->large().counts().pages, PagesCeil(900'000));
  void* next = Take(1'000'000);
  EXPECT_FALSE(Resize(p, 5 << 20));
  ASSERT_TRUE(Resize(p, 280'000));
  heap_->large().SetRequested(span, 281'000);
  EXPECT_EQ(heap_->large().RequestedOf(span), 281'000u);
  EXPECT_EQ(heap_->large().RangeOf(span).length, PagesCeil(280'000));
  EXPECT_EQ(heap_->large().counts().pages, PagesCeil(280'000) + PagesCeil(1'000'000));
  EXPECT_EQ(heap_->page_heap().used(), PagesCeil(280'000) + PagesCeil(1'000'000));
  Give(p);
  Give(next);
  ExpectAllGoesBack();
}

// At up to fifteen places, which take no more memory.
TEST_F(LargeBlocksTest, BlocksBeginWhereOthersDoNot) {
  std::map<size_t, int> starts;
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) {
    void* p = Take(400'010);
    blocks.push_back(p);
    ++starts[OffsetInPage(p)];
    const Span* span = heap_->large().At(p);
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(span->block_bytes(), BytesOf(PagesCeil(400'010)) - OffsetInPage(p));
    EXPECT_GE(span->block_bytes(), 400'010u);
    EXPECT_EQ(heap_->large().At(static_cast<char*>(p) - OffsetInPage(p)), nullptr);
  }
  EXPECT_EQ(heap_->large().counts().pages, Pages(200 * PagesCeil(400'010).raw()));
  EXPECT_EQ(starts.size(), 15u);
  for (const auto& [start, n] : starts) {
    EXPECT_EQ(start % kShift, 0u);
    EXPECT_TRUE(start >= kShift && start <= 15 * kShift) << start;
    EXPECT_LT(n, 40);
  }
  for (void* p : blocks) Give(p);
  ExpectAllGoesBack();
}

TEST_F(LargeBlocksTest, OneBeginsWithItsPageWhereItHasNoRoomOrIsAligned) {
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(Take(512 << 10));
    blocks.push_back(Take((512 << 10) - kShift + 1));
    blocks.push_back(heap_->large().Take(400'010, 2 * kShift).address);
    blocks.push_back(heap_->large().Take(400'010, kPageSize).address);
    blocks.push_back(heap_->large().Take(400'010, 4 * kPageSize).address);
    for (void* p : blocks) EXPECT_EQ(OffsetInPage(p), 0u);
    blocks.push_back(Take((512 << 10) - kShift));
    EXPECT_EQ(OffsetInPage(blocks.back()), kShift);
    Give(blocks.back());
    blocks.pop_back();
  }
  for (void* p : blocks) Give(p);
  ExpectAllGoesBack();
}

TEST_F(LargeBlocksTest, OneThatBeginsBehindItsPageHasLessRoomToGrow) {
  void* p = Take(400'010);
  const size_t shift = OffsetInPage(p);
  ASSERT_GE(shift, kShift);
  const Pages n = PagesCeil(400'010);
  ASSERT_TRUE(Resize(p, BytesOf(n) - shift));
  EXPECT_EQ(heap_->large().counts().pages, n);
  ASSERT_TRUE(Resize(p, BytesOf(n) - shift + 1));
  EXPECT_EQ(heap_->large().counts().pages, n + Pages(1));
  Give(p);
  ExpectAllGoesBack();
}

// By page tables; a copy would touch what the fake kernel has no memory for.
TEST_F(LargeBlocksTest, OneMovesToWhereItBeginsLikewise) {
  constexpr size_t kMiB = 1 << 20;
  kernel_.most_moved = HugePages(2);
  void* rest = Take(40 * kMiB);  // the heap is no small one
  for (int i = 0; i < 8; ++i) {
    void* from = Take(6 * kMiB + 1000);
    Span* span = heap_->large().At(from);
    const LargeBlock to = heap_->large().TakeLike(*span, 12 * kMiB);
    EXPECT_EQ(OffsetInPage(to.address), OffsetInPage(from));
    EXPECT_GE(heap_->large().At(to.address)->block_bytes(), 12 * kMiB);
    const size_t moved = 4 * kMiB - OffsetInPage(from);
    kernel_.Touch(from, moved, 7);
    heap_->large().GiveMoved(span, heap_->large().At(to.address), moved);
    EXPECT_TRUE(kernel_.Holds(to.address, moved, 7));
    Give(to.address);
  }
  Give(rest);
  EXPECT_EQ(heap_->large().counts().blocks, 0u);
}

TEST_F(LargeBlocksTest, OneThatBeginsElsewhereIsNotMoved) {
  constexpr size_t kMiB = 1 << 20;
  kernel_.most_moved = HugePages(2);
  void* rest = Take(40 * kMiB);
  void* from = Take(6 * kMiB + 1000);
  void* to = heap_->large().Take(12 * kMiB, kPageSize).address;
  kernel_.Touch(from, 4 * kMiB, 7);
  heap_->large().GiveMoved(heap_->large().At(from), heap_->large().At(to), 0);
  EXPECT_FALSE(kernel_.Holds(to, 2 * kMiB, 7));
  Give(to);
  Give(rest);
  ExpectAllGoesBack();
}

TEST_F(LargeBlocksTest, WithoutMemoryNoRecordIsLost) {
  std::vector<void*> blocks;
  while (void* p = Take(1'900'000)) blocks.push_back(p);
  EXPECT_GE(blocks.size(), 500u);  // of 512 hugepages
  const size_t used = memory_.arena().used_bytes();
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(Take(1'900'000), nullptr);
  EXPECT_EQ(memory_.arena().used_bytes(), used);
  EXPECT_EQ(heap_->large().counts().blocks, blocks.size());
  for (void* p : blocks) Give(p);
  ExpectAllGoesBack();
}

TEST_F(LargeBlocksTest, RandomBlocksKeepApart) {
  LargeBlockProgram program(*heap_, kernel_, 11);
  std::mt19937& random = program.random();
  for (int step = 0; step < 6000 && !HasFatalFailure(); ++step) {
    program.Step([&] { return 260'000 + random() % 4'000'000; });
    if (random() % 200 == 0) heap_->ReleaseNow(SIZE_MAX);
    if (random() % 1000 == 0) {
      kernel_.Advance(1000);
      heap_->Tick(Giving::kOn);
    }
  }
  program.GiveAll();
  ExpectAllGoesBack();
}

TEST_F(LargeBlocksTest, ThreadsResizeAndFreeEachOthersBlocks) {
  constexpr size_t kThreads = 4;
  constexpr size_t kShared = 64;
  std::atomic<void*> shared[kShared] = {};
  std::atomic<size_t> running{kThreads};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<uint32_t>(i));
      for (int step = 0; step < 8000; ++step) {
        void* mine = Take(260'000 + random() % 1'700'000);
        if (mine != nullptr && random() % 8 == 0) Resize(mine, 1 + random() % 1'000'000);
        void* old = shared[random() % kShared].exchange(mine);
        if (old != nullptr) Give(old);
      }
      running.fetch_sub(1);
    });
  }
  while (running != 0) {
    EXPECT_LE(heap_->large().counts().blocks, kShared + 2 * kThreads);
    heap_->ReleaseNow(SIZE_MAX);
  }
  for (std::thread& t : threads) t.join();
  for (auto& p : shared) {
    if (void* block = p.load()) Give(block);
  }
  ExpectAllGoesBack();
}

}  // namespace
}  // namespace strata::test
