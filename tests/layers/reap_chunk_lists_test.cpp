// A Reap over a heap that knows where its blocks begin: freed blocks wait by chunk, and a chunk
// goes with its last block.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "knowing_source.h"
#include "reap_program.h"
#include "strata/layers/combine/reap.h"

namespace strata::layers {
namespace {

constexpr size_t kMost = 32 << 10;
using KnowingReap = Stack<Reap<8192, kMost>, KnowingMmap>;

// As the process does it.
void Free(KnowingReap& heap, void* p) {
  void* start = KnowingMmap::start_of(p);
  if (reinterpret_cast<uintptr_t>(p) % 32 == 0 || start == nullptr) return heap.deallocate(p);
  ASSERT_TRUE(heap.free_in(p, start));
}

// What a thread in a scope does with most of its blocks.
TEST(ReapChunkLists, SetsAsideWhatIsLiveAndNeedsNoLook) {
  Stack<Reap<>, KnowingMmap> heap;
  heap.shut_window();
  heap.reserve(100'000);  // one chunk
  std::vector<void*> p;
  while (p.size() < 40) p.push_back(heap.allocate(1000));
  void* start = KnowingMmap::start_of(p[0]);
  void* apart = heap.allocate(1 << 20);
  const size_t before = heap.used(), each = 1008;
  EXPECT_EQ(heap.set_aside(p[1], start), each);
  EXPECT_EQ(heap.set_aside(apart, KnowingMmap::start_of(apart)), 0u);
  EXPECT_EQ(heap.set_aside(p.back(), start), 0u) << "the newest: the window takes it back";
  EXPECT_EQ(heap.set_aside(p[3], start), each);
  EXPECT_EQ(heap.used(), before - 2 * each);
  EXPECT_EQ(heap.set_aside(p[3], start), 0u) << "twice";
  EXPECT_FALSE(heap.is_live(p[3]));
  EXPECT_FALSE(heap.free_in(p[3], start));
  EXPECT_TRUE(heap.free_in(p.back(), start));
  EXPECT_FALSE(heap.free_in(p.back(), start)) << "it lies in the window now";
  EXPECT_EQ(heap.set_aside(p[2], start) + heap.set_aside(p[4], start), 2 * each);
  EXPECT_EQ(heap.used(), before - 5 * each);
  heap.reserve(0);  // joins what waits
  int tries = 0;
  while (heap.allocate(4 * each - 8) != p[1] && tries < 100) ++tries;
  EXPECT_LT(tries, 100) << "one hole of the four";
}

// However much waits, and whatever was joined in them before.
TEST(ReapChunkLists, EachChunkGoesWithItsLastBlock) {
  for (const bool joined : {false, true}) {
    KnowingReap heap;
    auto& chunks = KnowingMmap::blocks;
    std::vector<void*> blocks;
    while (chunks.size() < 40) blocks.push_back(heap.allocate(100));
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
    std::map<void*, size_t> live;
    for (void* p : blocks) ++live[KnowingMmap::start_of(p)];
    for (size_t i = 0; i < blocks.size(); ++i) {
      void* start = KnowingMmap::start_of(blocks[i]);
      Free(heap, blocks[i]);
      if (--live[start] == 0) live.erase(start);
      ASSERT_LE(chunks.size(), live.size() + 1) << "that of the window";
      if (joined && i % 1000 == 0) heap.reserve(0);
    }
    EXPECT_EQ(heap.used(), 0u);
    EXPECT_TRUE(heap.bumping());
  }
}

// A window in a chunk whose other blocks wait: that goes when the window moves on.
TEST(ReapChunkLists, AChunkWithoutLiveBlocksGoesWithTheWindow) {
  KnowingReap heap;
  auto& chunks = KnowingMmap::blocks;
  void* stays = heap.allocate(5000);
  std::vector<void*> newest;
  while (chunks.size() == 1) newest.assign(1, heap.allocate(1000));
  for (int i = 0; i < 5; ++i) newest.push_back(heap.allocate(1000));
  for (void* p : newest) heap.deallocate(p);
  ASSERT_EQ(chunks.size(), 2u);
  heap.reserve(kMost);
  EXPECT_EQ(chunks.size(), 2u) << "the first, and the one that is reserved";
  heap.deallocate(stays);
}

using TwoSizes = Stack<Reap<8192, 16384>, KnowingMmap>;

// A chunk that is kept ended with a hole, and now ends with a block.
TEST(ReapChunkLists, AClearedChunkThatIsFilledHasNoHole) {
  TwoSizes heap;
  for (int i = 0; i < 8; ++i) heap.allocate(1000);
  heap.reserve(TwoSizes::most_chunk);  // leaves 48 bytes of the first chunk
  heap.clear();
  ASSERT_EQ(heap.held(), 8192u);
  std::vector<void*> blocks;
  while (blocks.size() < 7) blocks.push_back(heap.allocate(1000));
  blocks.push_back(heap.allocate(1048));
  memset(blocks.back(), 0x5a, 1048);
  ASSERT_EQ(heap.held(), 8192u) << "full to the last byte";
  heap.reserve(TwoSizes::most_chunk);
  void* elsewhere = heap.allocate(1000);
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_EQ(heap.held(), 16384u);
  heap.deallocate(elsewhere);
}

// The last block goes by a path that sees only what was settled before the window stepped back.
TEST(ReapChunkLists, SetsAsideNoBlockWithoutWhichNothingIsUsed) {
  TwoSizes heap;
  heap.reserve(TwoSizes::most_chunk);
  void* p[3];
  for (void*& each : p) each = heap.allocate(1000);
  void* start = heap.newest_chunk_around(p[0]);
  ASSERT_TRUE(heap.free_in(p[1], start));
  ASSERT_TRUE(heap.step_back(p[2]));
  ASSERT_TRUE(heap.free_in(p[0], start));
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_EQ(heap.held(), 0u);
}

TEST(ReapChunkLists, DoesWithoutWhereTheHeapBelowDoesNotKnow) {
  const KnowingMmap::Forgetting guard;
  KnowingReap heap;
  std::vector<void*> blocks;
  while (blocks.size() < 3000) blocks.push_back(heap.allocate(100));
  EXPECT_EQ(heap.newest_chunk_around(blocks.back()), nullptr);
  const size_t held = heap.held();
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_LT(heap.held(), held);
  ASSERT_NE(heap.allocate(100), nullptr);
  heap.clear();
  ASSERT_EQ(heap.held(), 8192u);
  EXPECT_EQ(heap.newest_chunk_around(heap.allocate(100)), nullptr) << "the one that is kept";
}

TEST(ReapChunkLists, HoldWhateverAProgramDoes) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<uint8_t> bytes = test::RandomBytes(seed, 24'000);
    test::ReapProgram<KnowingReap>(test::ProgramBytes(bytes)).Run();
    ASSERT_TRUE(KnowingMmap::blocks.empty());
  }
}

}  // namespace
}  // namespace strata::layers
