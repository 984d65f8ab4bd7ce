// A Reap over a heap that knows where its blocks begin: freed blocks wait by chunk, and a chunk
// goes with its last block.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "knowing_source.h"
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

TEST(ReapChunkLists, DoesWithoutWhereTheHeapBelowDoesNotKnow) {
  KnowingReap heap;
  std::vector<void*> blocks;
  while (blocks.size() < 3000) blocks.push_back(heap.allocate(100));
  KnowingMmap::knows = false;
  const size_t held = heap.held();
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_LT(heap.held(), held);
  EXPECT_NE(heap.allocate(100), nullptr);
  KnowingMmap::knows = true;
}

struct Object {
  char* p;
  size_t size;
  unsigned char with;
};

// Random programs: no block is given out twice or loses its bytes, what the heap says is used is
// what the blocks take, and no chunk stays without a live block but the window's.
TEST(ReapChunkLists, HoldWhateverAProgramDoes) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return random() % n; };
  for (int round = 0; round < 60; ++round) {
    KnowingReap heap;
    if (round % 3 == 0) heap.shut_window();
    std::vector<Object> objects;
    const size_t largest = size_t{64} << below(6), most = 20 + below(3000);
    const auto check = [&](const Object& o) {
      for (size_t i = 0; i < o.size; i += 13) ASSERT_EQ(static_cast<unsigned char>(o.p[i]), o.with);
    };
    for (int step = 0; step < 6000; ++step) {
      const size_t what = below(100);
      const bool grows = (step / 1500) % 2 == 0;
      if (objects.empty() || what < (grows ? 55 : 30)) {
        if (objects.size() >= most) continue;
        const size_t size = below(what % 16 == 0 ? 40'000 : largest);
        void* p = what % 7 == 0 ? heap.allocate(size, size_t{16} << below(9)) : heap.allocate(size);
        ASSERT_NE(p, nullptr);
        objects.push_back({static_cast<char*>(p), size, static_cast<unsigned char>(random())});
        memset(p, objects.back().with, size);
        continue;
      }
      Object& o = objects[below(objects.size())];
      check(o);
      if (what < 60) {
        const size_t size = below(2 * o.size + 2);
        if (!heap.resize(o.p, size)) continue;
        o.size = size;
        memset(o.p, o.with, size);
      } else if (what == 60) {
        heap.reserve(below(kMost));
      } else {
        if (what < 70 || !heap.step_back(o.p)) Free(heap, o.p);
        o = objects.back();
        objects.pop_back();
      }
    }
    std::shuffle(objects.begin(), objects.end(), random);
    auto& chunks = KnowingMmap::blocks;
    while (!objects.empty()) {
      check(objects.back());
      Free(heap, objects.back().p);
      objects.pop_back();
      if (objects.size() % 16 != 0) continue;
      std::vector<void*> live;
      for (const Object& o : objects) live.push_back(KnowingMmap::start_of(o.p));
      std::sort(live.begin(), live.end());
      live.erase(std::unique(live.begin(), live.end()), live.end());
      ASSERT_LE(chunks.size(), live.size() + 1) << round;
    }
    EXPECT_EQ(heap.used(), 0u);
    EXPECT_LE(heap.held(), kMost);
  }
}

}  // namespace
}  // namespace strata::layers
