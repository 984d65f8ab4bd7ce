// What a reap makes of its holes: neighbours that join, rests too small for a block, and which hole
// becomes the window.
#include <gtest/gtest.h>

#include <vector>

#include "strata/layers/combine/reap.h"
#include "strata/layers/source/mmap.h"

namespace strata::layers {
namespace {

using Plain = Stack<Reap<>, Mmap>;

// Requests of all sizes are laid through a window, so one of a few blocks is not worth it: the best
// fit fills it, and what was the window stays.
TEST(ReapHoles, LeavesASmallHoleToTheBestFit) {
  Plain heap;
  heap.allocate(100);
  void* hole = heap.allocate(2000);
  auto* last = static_cast<char*>(heap.allocate(5864));
  ASSERT_LE(heap.held(), 8192u);
  char* const window = last + heap.size_of(last) + 8;  // of 112 bytes
  heap.deallocate(hole);
  EXPECT_EQ(heap.allocate(300), hole);
  EXPECT_EQ(heap.allocate(60), window);
  EXPECT_EQ(heap.allocate(200), static_cast<char*>(hole) + 320);
}

TEST(ReapHoles, AScrapKeepsNoChunk) {
  Plain heap;
  void* p = heap.allocate(8080);  // all of the first chunk but 16 bytes
  ASSERT_EQ(heap.held(), 8192u);
  heap.allocate(1000);
  const size_t before = heap.held();
  heap.deallocate(p);
  heap.reserve(0);  // joins what waits
  EXPECT_EQ(heap.held(), before - 8192);
}

// In front of the newest block lies a free one: both go back to the window, which then has all.
TEST(ReapHoles, StepsBackOverAFreeNeighbour) {
  Plain heap;
  heap.allocate(100);
  void* a = heap.allocate(100);
  void* b = heap.allocate(100);
  heap.deallocate(a);
  heap.reserve(0);  // joins what waits
  EXPECT_FALSE(heap.bumping());
  heap.deallocate(b);
  heap.reserve(0);
  EXPECT_TRUE(heap.bumping());
  EXPECT_EQ(heap.allocate(250), a) << "over the place of both";
}

// Half of it is still worth its memory; less is not.
TEST(ReapHoles, ABlockApartShrinksByHalfWhereItLies) {
  Plain heap;
  void* p = heap.allocate(1'000'000);
  const size_t bytes = heap.size_of(p);
  EXPECT_TRUE(heap.resize(p, bytes * 6 / 10));
  EXPECT_FALSE(heap.resize(p, bytes * 4 / 10));
  EXPECT_FALSE(heap.resize(p, bytes + 4096));
  EXPECT_EQ(heap.size_of(p), bytes);
  heap.deallocate(p);
  EXPECT_EQ(heap.held(), 0u);
}

// Two sizes a unit apart, the larger freed last: in lists sorted by size each of those would walk
// over all of the smaller (minutes, which the time that a test may take does not allow).
TEST(ReapHoles, AHundredThousandOfAboutOneSizeAreNoHurdle) {
  constexpr size_t kHoles = 100'000;
  Stack<Reap<8192, (128 << 10)>, Mmap> heap;
  std::vector<void*> small, larger;
  for (size_t i = 0; i < kHoles; ++i) {
    small.push_back(heap.allocate(520));
    ASSERT_NE(heap.allocate(8), nullptr);  // keeps the holes apart
    larger.push_back(heap.allocate(536));
    ASSERT_NE(heap.allocate(8), nullptr);
  }
  const size_t held = heap.held();
  for (void* p : small) heap.deallocate(p);
  for (void* p : larger) heap.deallocate(p);
  for (size_t i = 0; i < kHoles; ++i) ASSERT_NE(heap.allocate(536), nullptr);
  for (size_t i = 0; i < kHoles; ++i) ASSERT_NE(heap.allocate(520), nullptr);
  EXPECT_EQ(heap.held(), held) << "each found its hole";
}

// Aligned blocks a little shorter than their alignment; a rest of 16 bytes between two is a scrap.
TEST(ReapHoles, LaysAlignedBlocksOneBehindAnother) {
  constexpr size_t kPage = 4096, kMost = 128 << 10;
  for (const size_t less : {size_t{8}, size_t{16}, size_t{24}, size_t{32}}) {
    Stack<Reap<kMost, kMost>, Mmap> heap;
    std::vector<char*> pages;
    for (size_t i = 0; i < 30; ++i) {
      pages.push_back(static_cast<char*>(heap.allocate(kPage - less, kPage)));
      ASSERT_EQ(pages[i], pages[0] + i * kPage);
    }
    EXPECT_EQ(heap.held(), kMost);
    // In any order, and all of it is one window again.
    for (size_t i = 0; i < 30; i += 2) heap.deallocate(pages[i]);
    for (size_t i = 29; i < 30; i -= 2) heap.deallocate(pages[i]);
    EXPECT_EQ(heap.used(), 0u);
    EXPECT_NE(heap.allocate(kMost / 4 - 8), nullptr);
    EXPECT_NE(heap.allocate(kMost / 4 - 8), nullptr);
    EXPECT_NE(heap.allocate(kMost / 4 - 8), nullptr);
    EXPECT_EQ(heap.held(), kMost);
  }
}

}  // namespace
}  // namespace strata::layers
