// The classic heaps: random programs under the Check oracle, what each is known for, and misuse
// that is found. Of Hoard's more is tested in tests/layers/hoard_*_test.cpp.
#include <gtest/gtest.h>

#include "heap_program.h"
#include "heaps/kingsley.h"
#include "heaps/lea.h"
#include "heaps/obstack.h"
#include "heaps/reap.h"
#include "hoard_core.h"
#include "strata/layers/source/static_buffer.h"

namespace strata {
namespace {

using test::HoardCore;
using test::ProgramBytes;
using test::RandomBytes;
using test::RunHeapProgram;

template <class Core>
class ComposedHeap : public testing::Test {};
using Cores = testing::Types<HoardCore, KingsleyCore, LeaCore, ObstackCore, ReapCore>;
TYPED_TEST_SUITE(ComposedHeap, Cores);

TYPED_TEST(ComposedHeap, KeepsARandomProgramsBlocksApart) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<uint8_t> bytes = RandomBytes(seed, 20'000);
    RunHeapProgram<TypeParam>(ProgramBytes(bytes));
  }
}

TYPED_TEST(ComposedHeap, RefusesWhatIsEnormous) {
  TypeParam heap;
  for (size_t size : {SIZE_MAX, SIZE_MAX - 4096, size_t{PTRDIFF_MAX}, size_t{1} << 60}) {
    EXPECT_EQ(heap.allocate(size), nullptr);
    EXPECT_EQ(heap.allocate(size, 4096), nullptr);
  }
  EXPECT_EQ(heap.allocate(10, size_t{1} << 62), nullptr);
  void* p = heap.allocate(10);
  ASSERT_NE(p, nullptr);
  heap.deallocate(p);
}

TYPED_TEST(ComposedHeap, ReusesTheBlockFreedLast) {
  TypeParam heap;
  void* p = heap.allocate(100);
  heap.deallocate(p);
  EXPECT_EQ(heap.allocate(100), p);
  heap.deallocate(p);
}

TYPED_TEST(ComposedHeap, AlignsToAnyPowerOfTwo) {
  TypeParam heap;
  for (size_t align = 8; align <= size_t{4} << 20; align *= 2) {
    for (size_t size : {0u, 1u, 100u, 5000u, 300'000u}) {
      void* p = heap.allocate(size, align);
      ASSERT_NE(p, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u) << size;
      ASSERT_GE(heap.size_of(p), size);
      memset(p, 1, heap.size_of(p));
      heap.deallocate(p);
    }
  }
}

TEST(Kingsley, RoundsToPowersOfTwoWithItsHeader) {
  KingsleyCore heap;
  for (size_t size : {0u, 1u, 24u, 25u, 56u, 57u, 1000u, 5000u}) {
    void* p = heap.allocate(size);
    const size_t whole = heap.size_of(p) + 8;
    EXPECT_TRUE(layers::IsPowerOfTwo(whole));
    EXPECT_TRUE(whole == 32 || whole / 2 < size + 8) << size;
    heap.deallocate(p);
  }
}

TEST(Kingsley, ServesFromLargerKeptBlocksWhenThereIsNoMore) {
  using namespace layers;
  Stack<ClassHeader, Bins<PowersOfTwo<32, 4096>, FreeList>, StaticBuffer<4096>> heap;
  void* large = heap.allocate(2000);
  void* middle = heap.allocate(1000);
  while (heap.allocate(10) != nullptr) continue;
  heap.deallocate(large);
  heap.deallocate(middle);
  EXPECT_EQ(heap.allocate(10), middle) << "the smallest that serves";
  EXPECT_EQ(heap.allocate(1000), large);
  EXPECT_EQ(heap.allocate(10), nullptr);
  EXPECT_GE(heap.size_of(middle), 1000u) << "it stays of its class";
  heap.deallocate(middle);
  EXPECT_EQ(heap.allocate(1000), middle);
}

TEST(Kingsley, NeverUsesABlockForAnotherClass) {
  KingsleyCore heap;
  void* small = heap.allocate(24);
  heap.deallocate(small);
  void* large = heap.allocate(1000);
  heap.deallocate(large);
  for (int i = 0; i < 100; ++i) {
    void* p = heap.allocate(200);
    EXPECT_NE(p, small);
    EXPECT_NE(p, large);
  }
}

TEST(KingsleyDeathTest, FindsADoubleFree) {
  KingsleyCore heap;
  void* p = heap.allocate(100);
  heap.deallocate(p);
  EXPECT_DEATH(heap.deallocate(p), "^strata: free of a pointer that is no live block");
  void* aligned = heap.allocate(100, 4096);
  heap.deallocate(aligned);
  EXPECT_DEATH(heap.deallocate(aligned), "no live block");
  auto* inside = static_cast<char*>(heap.allocate(100));
  memset(inside, 0, 100);
  EXPECT_DEATH(heap.deallocate(inside + 16), "no live block");
}

// Neighbours join: what was many blocks serves one.
TEST(Lea, JoinsNeighbours) {
  LeaCore heap;
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(heap.allocate(2000));
  void* behind = heap.allocate(2000);
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_EQ(heap.allocate(40 * 2000), blocks[0]);
  heap.deallocate(blocks[0]);
  heap.deallocate(behind);
}

TEST(Lea, TakesTheBestFit) {
  LeaCore heap;
  std::vector<void*> holes, walls;
  for (size_t size : {9000u, 3000u, 5000u, 4000u}) {
    holes.push_back(heap.allocate(size));
    walls.push_back(heap.allocate(1000));
  }
  for (void* p : holes) heap.deallocate(p);
  EXPECT_EQ(heap.allocate(3900), holes[3]);
  EXPECT_EQ(heap.allocate(4500), holes[2]);
  EXPECT_EQ(heap.allocate(3000), holes[1]);
}

TEST(Lea, PutsLargeBlocksApartUntilOneIsFreed) {
  LeaCore heap;
  auto* first = static_cast<unsigned char*>(heap.allocate(200'000));
  EXPECT_TRUE(heap.reads_zero(first));
  first[0] = 7;
  EXPECT_FALSE(heap.resize(first, 900'000));
  auto* moved = static_cast<unsigned char*>(heap.remap(first, 900'000));
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved[0], 7);
  EXPECT_EQ(moved[899'999], 0);
  heap.deallocate(moved);
  void* second = heap.allocate(200'000);  // such sizes come and go: from the segment now
  EXPECT_FALSE(heap.reads_zero(second));
  heap.deallocate(second);
}

// Also where a block ends at the last byte of its pages.
TEST(Lea, SaysOfLargeBlocksWhatTheyHold) {
  for (size_t size = 204'700; size < 204'900; ++size) {
    LeaCore heap;
    void* p = heap.allocate(size);
    ASSERT_GE(heap.size_of(p), size);
    if (heap.resize(p, size + 9)) {
      ASSERT_GE(heap.size_of(p), size + 9);
    }
    memset(p, 1, heap.size_of(p));
    heap.deallocate(p);
  }
}

TEST(Lea, GivesTheEndOfTheSegmentBack) {
  using Bare = layers::Stack<layers::Coalesce<128 << 10>, layers::Sbrk>;
  Bare heap;
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(heap.allocate(100'000));
  const size_t full = heap.held();
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_GE(full, 100u * 100'000);
  EXPECT_LE(heap.held(), size_t{1} << 20);
}

TEST(LeaDeathTest, FindsADoubleFreeOfALargerBlock) {
  LeaCore heap;
  void* p = heap.allocate(3000);
  void* behind = heap.allocate(3000);
  heap.deallocate(p);
  EXPECT_DEATH(heap.deallocate(p), "^strata: free of a pointer that is no live block");
  heap.deallocate(behind);
}

// --- Reap

TEST(Reap, IsARegionUntilTheFirstFree) {
  ReapCore heap;
  std::vector<char*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(static_cast<char*>(heap.allocate(40)));
  for (size_t i = 1; i < 100; ++i) EXPECT_EQ(blocks[i], blocks[i - 1] + 48);
  EXPECT_TRUE(heap.next().bumping());
  heap.deallocate(blocks[10]);
  EXPECT_FALSE(heap.next().bumping());
  for (size_t i = 0; i < 100; ++i) {
    if (i != 10) heap.deallocate(blocks[i]);
  }
  EXPECT_TRUE(heap.next().bumping());
}

TEST(Reap, GivesChunksAndLargeBlocksBack) {
  ReapCore heap;
  void* kept = heap.allocate(100);
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(heap.allocate(10'000));
  void* large = heap.remap(heap.allocate(1 << 20), 50 << 20);
  EXPECT_GE(heap.next().held(), 10'000'000u + (50u << 20));
  heap.deallocate(large);
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_LE(heap.next().held(), size_t{3} << 20);
  heap.deallocate(kept);
}

TEST(ReapDeathTest, FindsMisuse) {
  ReapCore heap;
  void* p = heap.allocate(100);
  void* behind = heap.allocate(100);
  heap.deallocate(p);
  EXPECT_DEATH(heap.deallocate(p), "^strata: free of a pointer that is no live block");
  EXPECT_DEATH(heap.resize(p, 50), "no live block");
  EXPECT_DEATH(heap.deallocate(static_cast<char*>(behind) + 8), "no live block");
  heap.deallocate(behind);
}

// --- Obstack

TEST(Obstack, GivesLargeBlocksBackAtOnceWhereverTheyLie) {
  ObstackCore heap;
  auto* first = static_cast<unsigned char*>(heap.allocate(kObstackLimit));
  void* above = heap.allocate(100);
  EXPECT_TRUE(heap.reads_zero(first));
  EXPECT_FALSE(heap.reads_zero(above));
  heap.deallocate(first);
  void* second = heap.allocate(kObstackLimit);
  EXPECT_TRUE(heap.reads_zero(second)) << "the limit stays";
  heap.deallocate(second);
}

TEST(ObstackDeathTest, FindsADoubleFree) {
  ObstackCore heap;
  void* below = heap.allocate(100);
  void* p = heap.allocate(100);
  void* above = heap.allocate(100);
  heap.deallocate(p);
  EXPECT_DEATH(heap.deallocate(p), "^strata: free of a pointer that is no live block");
  heap.deallocate(above);
  EXPECT_DEATH(heap.deallocate(above), "no live block");
  EXPECT_DEATH(heap.deallocate(p), "no live block");
  heap.deallocate(below);
}

}  // namespace
}  // namespace strata
