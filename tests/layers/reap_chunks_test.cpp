// Which chunks a reap takes and keeps: a smaller one where the cap or the heap below refuses what
// it would rather have, the largest in the end; and a block apart that the heap below does not
// move.
#include <gtest/gtest.h>

#include <vector>

#include "strata/layers/combine/reap.h"
#include "strata/layers/source/mmap.h"

namespace strata::layers {
namespace {

constexpr size_t kFirst = 8 << 10;

// Gives no more than so much at a time, and moves nothing.
struct Short : Mmap {
  void* allocate(size_t size) { return size <= most ? Mmap::allocate(size) : nullptr; }
  void* remap(void*, size_t, size_t) { return nullptr; }
  static inline size_t most = 0;
};

TEST(ReapChunks, BelowTheCapASmallerOneWillDo) {
  Stack<Reap<kFirst>, Mmap> heap;
  heap.allocate(8000);  // fills the first
  ASSERT_EQ(heap.held(), kFirst);
  heap.set_cap(kFirst + 4096);
  EXPECT_NE(heap.allocate(3000), nullptr);
  EXPECT_EQ(heap.held(), kFirst + 4096);
  EXPECT_EQ(heap.refused_by_cap(), 0u);
}

TEST(ReapChunks, WhereTheHeapBelowIsShortASmallerOneWillDo) {
  Short::most = kFirst;
  Stack<Reap<kFirst>, Short> heap;
  heap.allocate(8000);
  Short::most = 4096;
  EXPECT_NE(heap.allocate(3000), nullptr);
  EXPECT_EQ(heap.held(), kFirst + 4096);
  EXPECT_EQ(heap.allocate(8000), nullptr);
}

TEST(ReapChunks, TheLargestIsKept) {
  Stack<Reap<kFirst>, Mmap> heap;
  for (int i = 0; i < 4; ++i) heap.allocate(8000);  // 8, 8 and 16 KiB
  ASSERT_EQ(heap.held(), 4 * kFirst);
  heap.clear();
  EXPECT_EQ(heap.held(), 2 * kFirst);
}

TEST(ReapChunks, ABlockApartThatIsNotMovedGoesWithTheRest) {
  Short::most = SIZE_MAX;
  Stack<Reap<kFirst>, Short> heap;
  auto* p = static_cast<char*>(heap.allocate(1 << 20));
  p[0] = 'a';
  EXPECT_EQ(heap.remap(p, 2 << 20), nullptr);
  EXPECT_EQ(p[0], 'a');
  EXPECT_GE(heap.size_of(p), size_t{1} << 20);
  heap.clear();
  EXPECT_EQ(heap.held(), 0u);
}

// Places that are kOff beyond a page.
template <size_t kOff>
struct Beyond : Mmap {
  void* allocate(size_t size) {
    auto* p = static_cast<char*>(Mmap::allocate(size + kOff));
    return p == nullptr ? nullptr : p + kOff;
  }
  void deallocate(void* p, size_t size) {
    Mmap::deallocate(static_cast<char*>(p) - kOff, size + kOff);
  }
  void* remap(void*, size_t, size_t) { return nullptr; }
};

template <size_t kOff>
void ExpectThatChunksOfAlignedBlocksGo() {
  for (const size_t align : {size_t{32}, size_t{64}, size_t{128}}) {
    Stack<Reap<kFirst, kFirst>, Beyond<kOff>> heap;
    void* last = nullptr;
    while (heap.held() < 2 * kFirst) last = heap.allocate(1000);
    heap.deallocate(last);  // the second chunk is the window, from its very start
    std::vector<void*> blocks;
    while (heap.held() < 5 * kFirst) blocks.push_back(heap.allocate(align, align));
    for (void* p : blocks) EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
    // All but the last, whose chunk stays beside the first.
    for (size_t b = blocks.size() - 1; b-- > 0;) heap.deallocate(blocks[b]);
    EXPECT_EQ(heap.held(), 2 * kFirst) << align;
  }
}

// The window may lie at the start of an older chunk.
TEST(ReapChunks, AnOlderOneThatBeganWithAnAlignedBlockGoesOnceItIsEmpty) {
  Stack<Reap<kFirst, kFirst>, Beyond<16>> heap;
  std::vector<void*> blocks;
  while (blocks.size() < 16) blocks.push_back(heap.allocate(1000));
  ASSERT_EQ(heap.held(), 2 * kFirst);
  for (size_t b = 0; b < 7; ++b) heap.deallocate(blocks[b]);
  void* p = heap.allocate(100);
  ASSERT_EQ(p, blocks[0]) << "the hole is the window";
  heap.deallocate(p);
  p = heap.allocate(32, 32);
  ASSERT_EQ(static_cast<char*>(p), static_cast<char*>(blocks[0]) + 16);
  heap.deallocate(blocks[7]);
  heap.deallocate(p);
  heap.reserve(kFirst);
  EXPECT_EQ(heap.held(), 2 * kFirst) << "the second, and the one that is reserved";
}

TEST(ReapChunks, OneThatBeganWithAnAlignedBlockGoesOnceItIsEmpty) {
  ExpectThatChunksOfAlignedBlocksGo<0>();
  ExpectThatChunksOfAlignedBlocksGo<16>();
  ExpectThatChunksOfAlignedBlocksGo<48>();
}

}  // namespace
}  // namespace strata::layers
