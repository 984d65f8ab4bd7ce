// DeferredPop: objects of a stack that are freed in any order, what goes when, what stays, and the
// resizing of the newest.
#include "strata/layers/combine/deferred_pop.h"

#include <algorithm>

#include "heap_model.h"
#include "strata/layers/combine/obstack.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/tool/check.h"
#include "strata/layers/tool/count.h"
#include "strata/layers/tool/fail_nth.h"

namespace strata::layers {
namespace {

using Heap = Stack<DeferredPop, Obstack<1024>, Count, Mmap>;

size_t Chunks(Heap& heap) { return layer<Count>(heap).counts().blocks(); }
std::vector<void*> Take(Heap& heap, size_t n, size_t size) {
  std::vector<void*> blocks(n);
  for (void*& p : blocks) p = heap.allocate(size);
  return blocks;
}

TEST(DeferredPop, PopsTheNewest) {
  Heap heap;
  void* a = heap.allocate(100);
  void* b = heap.allocate(50);
  EXPECT_EQ(b, static_cast<char*>(a) + 112 + 16);
  heap.deallocate(b);
  EXPECT_EQ(heap.allocate(300), b);
  EXPECT_EQ(heap.size_of(b), 304u);
}

TEST(DeferredPop, KeepsWhatIsFreedEarlyUntilAllAboveAreGone) {
  Heap heap;
  const std::vector<void*> p = Take(heap, 4, 100);
  heap.deallocate(p[1]);
  heap.deallocate(p[2]);
  EXPECT_GT(heap.allocate(10), p[3]);
  heap.deallocate(static_cast<char*>(p[3]) + 128);
  heap.deallocate(p[3]);  // and with it the two below
  EXPECT_EQ(heap.allocate(10), p[1]);
}

TEST(DeferredPop, GivesEmptiedChunksBackInAnyOrderOfFrees) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Heap heap;
    void* kept = heap.allocate(10);
    std::vector<void*> blocks = Take(heap, 500, 200);
    EXPECT_GT(Chunks(heap), 100u);
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(seed));
    for (void* p : blocks) heap.deallocate(p);
    EXPECT_EQ(Chunks(heap), 1u);
    heap.deallocate(kept);
    EXPECT_EQ(Chunks(heap), 0u);
  }
}

// What the header of deferred_pop.h warns of.
TEST(DeferredPop, HoldsAllThatLiesBelowOneBlock) {
  Heap heap;
  std::vector<void*> blocks = Take(heap, 500, 200);
  for (size_t i = 0; i < 499; ++i) heap.deallocate(blocks[i]);
  EXPECT_GT(Chunks(heap), 100u);
  heap.deallocate(blocks[499]);
  EXPECT_EQ(Chunks(heap), 0u);
}

TEST(DeferredPop, ResizesTheNewestWhereItLies) {
  Heap heap;
  auto* below = static_cast<unsigned char*>(heap.allocate(100));
  auto* p = static_cast<unsigned char*>(heap.allocate(100));
  memset(below, 1, 100);
  memset(p, 2, 100);
  EXPECT_TRUE(heap.resize(p, 500));
  EXPECT_EQ(heap.size_of(p), 512u);
  memset(p, 3, 500);
  EXPECT_FALSE(heap.resize(p, 5000)) << "beyond its chunk";
  EXPECT_EQ(heap.size_of(p), 512u);
  EXPECT_TRUE(heap.resize(p, 20));
  EXPECT_EQ(heap.allocate(1), p + 32 + 16) << "what it had more is free";
  EXPECT_FALSE(heap.resize(p, 33)) << "there is one above it now";
  EXPECT_TRUE(heap.resize(p, 0));
  EXPECT_FALSE(heap.resize(p, SIZE_MAX));
  EXPECT_EQ(below[99], 1);
  EXPECT_EQ(p[15], 3);
}

// Also where an aligned block left a gap below it.
TEST(DeferredPop, GrowsTheNewestAfterAnotherWasPopped) {
  Heap heap;
  for (size_t align : {16u, 256u}) {
    auto* p = static_cast<unsigned char*>(heap.allocate(40));
    void* above = heap.allocate(40, align);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(above) % align, 0u);
    heap.deallocate(above);
    EXPECT_TRUE(heap.resize(p, 80));
    memset(p, 7, 80);
    EXPECT_EQ(heap.allocate(16), p + 80 + 16);
    heap.clear();
  }
}

TEST(DeferredPop, IsAsItWasWhenThereIsNoMemory) {
  Stack<DeferredPop, Obstack<1024>, FailNth, Mmap> heap;
  void* p = heap.allocate(800);
  layer<FailNth>(heap).fail_each(1);
  EXPECT_EQ(heap.allocate(800), nullptr);
  EXPECT_EQ(heap.allocate(10, 4096), nullptr);
  EXPECT_FALSE(heap.resize(p, 1200));
  EXPECT_TRUE(heap.resize(p, 900));
  heap.deallocate(p);
}

TEST(DeferredPop, RefusesWhatIsEnormous) {
  Heap heap;
  for (size_t size : {SIZE_MAX, SIZE_MAX - 31, kMaxRequest}) {
    EXPECT_EQ(heap.allocate(size), nullptr);
    EXPECT_EQ(heap.allocate(size, 64), nullptr);
  }
  EXPECT_EQ(heap.allocate(1, size_t{1} << 63), nullptr);
}

TEST(DeferredPopDeathTest, FindsADoubleFree) {
  Heap heap;
  void* bottom = heap.allocate(10);
  void* a = heap.allocate(10);
  void* b = heap.allocate(10);
  heap.deallocate(a);
  EXPECT_DEATH(heap.deallocate(a), "^strata: free of a pointer that is no live block");
  EXPECT_DEATH(heap.resize(a, 5), "no live block");
  heap.deallocate(b);
  EXPECT_DEATH(heap.deallocate(b), "no live block") << "also when it was popped";
  heap.deallocate(bottom);
}

TEST(DeferredPop, RunsTheModelUnderCheck) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Stack<Check, DeferredPop, Obstack<4096>, Count, Mmap> heap;
    RunModel(heap, 4000, seed, MixedSize);
    EXPECT_EQ(layer<Count>(heap).counts().blocks(), 0u);
  }
}

}  // namespace
}  // namespace strata::layers
