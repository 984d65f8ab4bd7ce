// Private and owned heaps: whose heap a freed block goes to, and that threads don't get in each
// other's way.
#include "strata/layers/thread/per_thread.h"

#include <atomic>
#include <thread>

#include "heap_model.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/fixed.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/thread/locked.h"
#include "strata/layers/tool/count.h"

namespace strata::layers {
namespace {

// Who is asking: set by the test, so that one thread plays many.
struct Chosen {
  static constexpr bool exclusive = true;
  static inline thread_local size_t who = 0;
  static size_t index() { return who; }
};

using Bin = Bins<PowersOfTwo<16, 32768>, FreeList>;
using Private = Stack<PrivateHeaps<4, Chosen, Bin>, Locked, Bump<>, Mmap>;
using Owned = Stack<OwnedHeaps<4, Chosen, Locked, Bin>, Locked, Bump<>, Mmap>;

TEST(PrivateHeaps, KeepABlockWhereItWasFreed) {
  Private heap;
  Chosen::who = 0;
  void* p = heap.allocate(64);
  Chosen::who = 1;
  heap.deallocate(p, 64);
  EXPECT_EQ(heap.allocate(64), p);
  Chosen::who = 0;
  EXPECT_NE(heap.allocate(64), p);
}

TEST(OwnedHeaps, SendABlockHome) {
  Owned heap;
  Chosen::who = 0;
  void* p = heap.allocate(64);
  EXPECT_EQ(Owned::owner_of(p), 0u);
  Chosen::who = 1;
  heap.deallocate(p, 64);
  EXPECT_NE(heap.allocate(64), p);
  Chosen::who = 0;
  EXPECT_EQ(heap.allocate(64), p);
}

// One allocates, the next frees (the talk's producer and consumer): private heaps take new memory
// for ever, owned ones don't.
TEST(PrivateHeaps, GrowWithoutBoundBetweenProducerAndConsumer) {
  Private pure;
  Owned owned;
  for (int i = 0; i < 10'000; ++i) {
    Chosen::who = 0;
    void* a = pure.allocate(1000);
    void* b = owned.allocate(1000);
    Chosen::who = 1;
    pure.deallocate(a, 1000);
    owned.deallocate(b, 1000);
  }
  EXPECT_GT(layer<Bump<>>(pure).held(), 9'000'000u);
  EXPECT_LT(layer<Bump<>>(owned).held(), 100'000u);
}

// A list that says when two threads are in it at once.
struct Alone {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;
    using Through<Below>::Through;
    void* allocate(size_t size) {
      EXPECT_FALSE(busy_.exchange(true));
      std::this_thread::yield();
      void* p = this->next_.allocate(size);
      busy_.store(false);
      return p;
    }

   private:
    std::atomic<bool> busy_{false};
  };
};

// Each thread has its heap without a lock, and the threads for which there is none share one that
// locks.
TEST(PrivateHeaps, NeedNoLockWhereEachThreadHasItsOwn) {
  Stack<PrivateHeaps<3, ThreadIndex, Alone, Bin>, Locked, Bump<>, Mmap> heap;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 6; ++t)
      threads.emplace_back([&heap, t] { RunModel(heap, 2000, t + 1, MixedSize); });
    for (auto& t : threads) t.join();
  }
  size_t locks = 0;
  heap.visit_locks([&locks](auto&) { ++locks; });
  EXPECT_EQ(locks, 2u) << "of those that share, and of the heap below";
}

TEST(PrivateHeaps, GoToALaterThread) {
  Stack<PrivateHeaps<8, ThreadIndex, Bin>, Locked, Bump<>, Mmap> heap;
  void* freed = nullptr;
  void* again = nullptr;
  std::thread([&] { heap.deallocate(freed = heap.allocate(100), 100); }).join();
  std::thread([&] { again = heap.allocate(100); }).join();
  EXPECT_EQ(again, freed);
  heap.clear();
  std::thread([&] { again = heap.allocate(100); }).join();
  EXPECT_EQ(layer<Bump<>>(heap).held(), size_t{64} << 10) << "the lists forgot what was in them";
}

TEST(ThreadIndex, GoesToALaterThread) {
  size_t first = 0, second = 1;
  std::thread([&] { first = ThreadIndex::index(); }).join();
  std::thread([&] { second = ThreadIndex::index(); }).join();
  EXPECT_EQ(first, second);
}

// Also the heap of the threads for which there is none.
TEST(PrivateHeaps, ForgetAllListsWhenCleared) {
  Stack<PrivateHeaps<2, Chosen, Bin>, Locked, Bump<>, Mmap> heap;
  Chosen::who = 5;
  heap.deallocate(heap.allocate(64), 64);
  heap.clear();
  void* p = heap.allocate(64);
  Chosen::who = 0;
  EXPECT_NE(heap.allocate(64), p);
}

TEST(PrivateHeaps, SendWhatTheyKeepDownAtTheEnd) {
  Stack<Count, Mmap> below;
  {
    Stack<Fixed<64>, PrivateHeaps<2, ThreadIndex, FreeList>, Locked, Ref<decltype(below)>> heap(
        below);
    heap.deallocate(heap.allocate(64), 64);
    EXPECT_EQ(below.counts().blocks(), 1u);
  }
  EXPECT_EQ(below.counts().blocks(), 0u);
}

TEST(OwnedHeaps, AreSharedByThreads) {
  Stack<OwnedHeaps<4, ThreadIndex, Locked, Bin>, Locked, Bump<>, Mmap> heap;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&heap, t] { RunModel(heap, 5000, t + 1, MixedSize); });
  }
  for (auto& t : threads) t.join();
}

// A thread that moves from one CPU to another frees into a heap that did not cut the block.
TEST(PrivateHeaps, EndWithListsThatLeadIntoEachOthersChunks) {
  for (bool first : {false, true}) {
    Stack<PrivateHeaps<2, Chosen, Bin, Bump<>>, Locked, Mmap> heap;
    for (int i = 0; i < 1000; ++i) {
      Chosen::who = first ? 0 : 1;
      void* p = heap.allocate(100);
      Chosen::who = first ? 1 : 0;
      heap.deallocate(p, 100);
      Chosen::who = 2 + i % 2;  // who has no heap of his own shares one
      heap.deallocate(heap.allocate(200), 200);
    }
  }
  Chosen::who = 0;
}

TEST(OwnedHeaps, AcceptBlocksOfOtherThreads) {
  Stack<OwnedHeaps<3, CpuIndex, Locked, Bin>, Locked, Bump<>, Mmap> heap;
  std::vector<ModelBlock> blocks(2000);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = {nullptr, i % 700, static_cast<unsigned char>(i)};
    blocks[i].p = static_cast<unsigned char*>(heap.allocate(blocks[i].size));
    Fill(blocks[i]);
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < blocks.size(); i += 4) {
        EXPECT_TRUE(Intact(blocks[i]));
        heap.deallocate(blocks[i].p, blocks[i].size);
        void* p = heap.allocate(blocks[i].size);
        heap.deallocate(p, blocks[i].size);
      }
    });
  }
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace strata::layers
