// Blocks of a Reap that were freed and wait to be joined with their neighbours: each may keep a
// chunk, but stands in the way of nothing.
#include <vector>

#include "gtest/gtest.h"
#include "strata/layers/combine/reap.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/tool/fail_nth.h"

namespace strata::layers {
namespace {

constexpr size_t kLargest = 128 << 10;
using ProcessReap = Stack<Reap<8192, kLargest>, Mmap>;
using Plain = Stack<Reap<>, Mmap>;

// The chunk of 64 KiB would go, did no blocks in it wait.
template <class H>
void LeaveAChunkToWaitingBlocks(H& heap) {
  std::vector<void*> blocks;  // of the newest chunk
  for (size_t grown = 0; grown != kLargest;) {
    const size_t held = heap.held();
    void* p = heap.allocate(1000);
    grown = heap.held() - held;
    if (grown == kLargest) break;
    if (grown != 0) blocks.clear();
    blocks.push_back(p);
  }
  for (int i = 0; i < 120; ++i) heap.allocate(1000);
  const size_t held = heap.held();
  for (void* p : blocks) heap.deallocate(p);
  ASSERT_EQ(heap.held(), held);
}

TEST(ReapWaiting, IsJoinedBeforeTheCapRefusesALargeRequest) {
  ProcessReap heap;
  LeaveAChunkToWaitingBlocks(heap);
  bool asked = false;
  heap.set_cap(
      heap.held(),
      [](void* context, size_t, size_t, size_t cap) {
        *static_cast<bool*>(context) = true;
        return cap;
      },
      &asked);
  EXPECT_NE(heap.allocate(60'000), nullptr);
  EXPECT_FALSE(asked);
  EXPECT_EQ(heap.refused_by_cap(), 0u);
  EXPECT_EQ(heap.allocate(60'000), nullptr);
  EXPECT_TRUE(asked);
}

TEST(ReapWaiting, IsJoinedBeforeALargeRequestFails) {
  Stack<Reap<8192, kLargest>, FailNth, Mmap> heap;
  LeaveAChunkToWaitingBlocks(heap);
  layer<FailNth>(heap).fail_nth(1);
  EXPECT_NE(heap.allocate(60'000), nullptr);
  layer<FailNth>(heap).fail_nth(1);
  EXPECT_EQ(heap.allocate(60'000), nullptr) << "nothing waits any more";
}

TEST(ReapWaiting, IsJoinedBeforeTheCapRefusesALargeMove) {
  ProcessReap heap;
  auto* p = static_cast<char*>(heap.allocate(40'000));
  p[39'999] = 7;
  LeaveAChunkToWaitingBlocks(heap);
  heap.set_cap(heap.held());
  p = static_cast<char*>(heap.remap(p, 90'000));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p[39'999], 7);
}

// The newest block may be the last one of all.
TEST(ReapWaiting, GoesWithAStepBackToNothing) {
  ProcessReap heap;
  std::vector<void*> blocks;
  while (blocks.size() < 20'000) blocks.push_back(heap.allocate(1000));
  for (void* p : blocks) {
    if (!heap.step_back(p)) heap.deallocate(p);
  }
  EXPECT_EQ(heap.used(), 0u);
  EXPECT_LT(heap.held(), kLargest);
  EXPECT_TRUE(heap.bumping());
}

// Both sides of a rest of 16 bytes wait to be joined: the second is in use for the first.
TEST(ReapWaiting, JoinsAcrossAScrap) {
  Plain heap;
  std::vector<void*> p;
  while (p.size() < 7) p.push_back(heap.allocate(1000));
  heap.allocate(1048);  // the window is used up
  for (size_t i = 1; i < 4; ++i) heap.deallocate(p[i]);
  void* small = heap.allocate(8);
  ASSERT_EQ(small, p[1]) << "the hole is the window";
  void* rest = heap.allocate(3024 - 32 - 16 - 8);
  heap.allocate(2000);  // elsewhere
  const size_t before = heap.used();
  heap.deallocate(p[4]);
  heap.deallocate(rest);
  heap.reserve(0);  // joins what waits
  EXPECT_EQ(heap.used(), before - 1008 - (3024 - 32 - 16));
  int tries = 0;
  while (heap.allocate(3024 - 32 + 1008 - 8) != rest && tries < 9) ++tries;
  EXPECT_LT(tries, 9) << "one hole";
  for (int i = 0; i < 20; ++i) EXPECT_NE(heap.allocate(1000), p[4]) << "a part of that hole";
}

}  // namespace
}  // namespace strata::layers
