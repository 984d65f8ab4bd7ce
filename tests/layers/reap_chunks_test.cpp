// Which chunks a reap takes and keeps: a smaller one where the cap or the heap below refuses what
// it would rather have, the largest in the end; and a block apart that the heap below does not
// move.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace strata::layers
