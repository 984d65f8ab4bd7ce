// Hoard and heaps with owners under real threads, for ThreadSanitizer as much as for the figures:
// threads that allocate, free their own and others' blocks and change heaps, while superblocks move
// to the global heap, between shards' users and back to the system all the time.
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "heap_model.h"
#include "hoard_checks.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/source/aligned_mmap.h"
#include "strata/layers/thread/per_thread.h"
#include "strata/layers/thread/thread_buffers.h"

namespace strata::layers {
namespace {

constexpr size_t kUnit = 8192;
constexpr unsigned kThreads = 4;

// As many moves as can be: superblocks are parted with at once, which they are at the least f, and
// none is kept.
struct Restless : HoardTraits<kUnit> {
  static constexpr size_t heaps = 3;
  static constexpr size_t shards = 2;
  static constexpr size_t spares = 1;
  using Which = PlayedProcessor;
};
const HoardOptions kRestless{.thresholds = {.empty_sixteenths = 1, .slack = 1}};

struct RestlessBorrower : Restless {
  static constexpr size_t borrows_from = 1;
};

template <class F>
void OnThreads(F f) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&f, t] {
      PlayedProcessor::who = t;
      f(t);
    });
  }
  for (auto& t : threads) t.join();
}

// Blocks go through mailboxes that every thread puts into and takes from; what is in a block says
// whether it was given to two at once.
template <class H>
void PassAround(H& heap, int steps) {
  constexpr size_t kBoxes = 64;
  std::atomic<unsigned char*> boxes[kBoxes] = {};
  const auto size_in = [](const unsigned char* p) { return 24 + 8 * size_t{p[0]}; };
  const auto give = [&](unsigned char* p) {
    if (p == nullptr) return;
    const size_t size = size_in(p);
    for (size_t i = 1; i < size; ++i) ASSERT_EQ(p[i], p[0]);
    heap.deallocate(p, size);
  };
  OnThreads([&](unsigned t) {
    std::mt19937 random(t + 1);
    for (int i = 0; i < steps; ++i) {
      const auto mark = static_cast<unsigned char>(random());
      auto* p = static_cast<unsigned char*>(heap.allocate(24 + 8 * size_t{mark}));
      ASSERT_NE(p, nullptr);
      memset(p, mark, 24 + 8 * size_t{mark});
      // acq_rel: hands the block over with what is written in it.
      give(boxes[random() % kBoxes].exchange(p, std::memory_order_acq_rel));
      if (random() % 64 == 0) PlayedProcessor::who = random();
    }
  });
  for (auto& box : boxes) give(box.load());
}

TEST(HoardThreads, PassBlocksAround) {
  CountingSource<kUnit> source;
  Stack<Hoard<Restless>, Ref<CountingSource<kUnit>>> heap(kRestless, source);
  PassAround(heap, 15'000);
  ExpectSound(heap);
}

TEST(HoardThreads, PassBlocksAroundAndBorrow) {
  CountingSource<kUnit> source;
  Stack<Hoard<RestlessBorrower>, Ref<CountingSource<kUnit>>> heap(kRestless, source);
  PassAround(heap, 15'000);
  ExpectSound(heap);
}

TEST(HoardThreads, PassBlocksAroundByCpu) {
  Stack<Hoard<>, AlignedMmap<65536>> heap;
  PassAround(heap, 15'000);
  ExpectSound(heap);
}

// Every thread fills superblocks and then all free a share of all of them: each superblock loses
// its objects to four threads at once while its owner parts with it.
TEST(HoardThreads, EmptySuperblocksTogether) {
  CountingSource<kUnit> source;
  Stack<Hoard<Restless>, Ref<CountingSource<kUnit>>> heap(kRestless, source);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::vector<void*>> blocks(kThreads);
    OnThreads([&](unsigned t) {
      for (size_t i = 0; i < 1500; ++i) blocks[t].push_back(heap.allocate(16 + i % 4 * 100));
    });
    OnThreads([&](unsigned t) {
      for (auto& from : blocks) {
        for (size_t i = t; i < from.size(); i += kThreads) heap.deallocate(from[i]);
      }
    });
    ExpectSound(heap);
  }
}

TEST(HoardThreads, RunModels) {
  CountingSource<kUnit> source;
  Stack<Hoard<Restless>, Ref<CountingSource<kUnit>>> heap(kRestless, source);
  OnThreads([&](unsigned t) { RunModel(heap, 5000, t + 1, MixedSize); });
  ExpectSound(heap);
}

struct Buffered : RestlessBorrower {};
using BufferedHeap = Stack<ThreadBuffers<>, Hoard<Buffered>, Ref<CountingSource<kUnit>>>;

TEST(ThreadBuffers, PassBlocksAroundAndGoHomeWithTheirThreads) {
  CountingSource<kUnit> source;
  BufferedHeap heap(kRestless, source);
  for (int round = 0; round < 3; ++round) PassAround(heap, 10'000);
  heap.flush();
  ExpectSound(heap.next());
  // Nothing is in use but the buffer of this thread, which freed the last blocks.
  size_t used = 0;
  heap.next().visit_bins([&](auto& bin, size_t, size_t) { used += bin.used; });
  EXPECT_LE(used, 1u);
}

struct BufferedToo : Restless {};

TEST(ThreadBuffers, KeepOnlyWhatIsTheirHeapsOwnAndNotTooMuch) {
  using H = Stack<ThreadBuffers<>, Hoard<BufferedToo>, Ref<CountingSource<kUnit>>>;
  CountingSource<kUnit> source;
  H heap(kRestless, source);
  // Of another processor's heap: as cache-scratch hands them to a worker.
  PlayedProcessor::who = 0;
  std::vector<void*> mine(100);
  for (void*& p : mine) p = heap.allocate(16);
  std::thread([&] {
    PlayedProcessor::who = 1;
    void* first = heap.allocate(16);
    heap.deallocate(mine[0]);
    void* next = heap.allocate(16);
    EXPECT_NE(next, mine[0]);
    EXPECT_NE(reinterpret_cast<uintptr_t>(next) / kUnit,
              reinterpret_cast<uintptr_t>(mine[0]) / kUnit);
    heap.deallocate(first);
    heap.deallocate(next);
  }).join();
  for (size_t i = 1; i < mine.size(); ++i) heap.deallocate(mine[i]);
  // Kept blocks are in use to the heap below: at most most_bytes() of them.
  std::vector<void*> many(20'000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = heap.allocate(i % 1025);
  for (void* p : many) heap.deallocate(p);
  size_t bytes = 0;
  heap.next().visit_bins([&](auto& bin, size_t, size_t c) {
    bytes += bin.used * HoardTraits<kUnit>::Classes::size(c);
  });
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, H::most_bytes() + 1024);
  heap.flush();
  ExpectSound(heap.next());

  // A second heap of the type works without buffers.
  CountingSource<kUnit> other_source;
  H other(kRestless, other_source);
  void* p = other.allocate(100);
  other.deallocate(p);
  size_t used = 0;
  other.next().visit_bins([&](auto& bin, size_t, size_t) { used += bin.used; });
  EXPECT_EQ(used, 0u);
  PlayedProcessor::who = 0;
}

struct TwoOfAType : Restless {};

TEST(ThreadBuffers, GiveNoHeapTheBlocksOfAnother) {
  using H = Stack<ThreadBuffers<>, Hoard<TwoOfAType>, Ref<CountingSource<kUnit>>>;
  CountingSource<kUnit> source, other_source;
  H heap(kRestless, source), other(kRestless, other_source);
  void* p = heap.allocate(16);  // more of them wait in the buffer now
  EXPECT_EQ(other_source.held(), 0u);
  void* q = other.allocate(16);
  EXPECT_GT(other_source.held(), 0u);
  other.deallocate(q);
  heap.deallocate(p);
  heap.flush();
}

struct MisusedBuffers : Restless {};

TEST(ThreadBuffersDeathTest, FindDoubleFreesAndPointersIntoBlocks) {
  using H = Stack<ThreadBuffers<>, Hoard<MisusedBuffers>, Ref<CountingSource<kUnit>>>;
  CountingSource<kUnit> source;
  H heap(kRestless, source);
  auto* a = static_cast<char*>(heap.allocate(48));
  auto* b = static_cast<char*>(heap.allocate(48));
  EXPECT_DEATH(heap.deallocate(a + 16), "strata hoard: freed twice, or never a block");
  heap.deallocate(a);
  heap.deallocate(b);
  EXPECT_DEATH(heap.deallocate(a), "strata hoard: a block was freed twice");
  heap.flush();
  EXPECT_DEATH(heap.deallocate(a), "strata hoard: ");
}

using Bin = Bins<PowersOfTwo<16, 32768>, FreeList>;

TEST(OwnershipThreads, PassBlocksAround) {
  Stack<OwnedHeaps<3, PlayedProcessor, Locked, Bin>, Locked, Bump<>, Mmap> bins;
  PassAround(bins, 15'000);
  Stack<OwnedHeaps<3, PlayedProcessor, Locked, Coalesce<>>, Mmap> coalescing;
  PassAround(coalescing, 15'000);
}

TEST(PrivateThreads, PassBlocksAround) {
  Stack<PrivateHeaps<3, PlayedProcessor, Locked, Bin>, Locked, Bump<>, Mmap> heap;
  PassAround(heap, 15'000);
}

}  // namespace
}  // namespace strata::layers
