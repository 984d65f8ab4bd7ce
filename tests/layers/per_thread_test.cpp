// Private and owned heaps: whose heap a freed block goes to, and that threads don't get in each
// other's way.
#include "strata/layers/per_thread.h"

#include <thread>

#include "heap_model.h"
#include "strata/layers/bins.h"
#include "strata/layers/bump.h"
#include "strata/layers/count.h"
#include "strata/layers/free_list.h"
#include "strata/layers/locked.h"
#include "strata/layers/mmap_source.h"

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
  EXPECT_EQ(Owned::OwnerOf(p), 0u);
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

TEST(OwnedHeaps, AreSharedByThreads) {
  Stack<OwnedHeaps<4, ThreadIndex, Locked, Bin>, Locked, Bump<>, Mmap> heap;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&heap, t] { RunModel(heap, 5000, t + 1, MixedSize); });
  }
  for (auto& t : threads) t.join();
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
