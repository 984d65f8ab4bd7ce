// What a domain does where it cannot: without memory, near a limit, with a kernel that refuses,
// behind its work.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_hot_memory.h"
#include "hotness/hot_domain.h"

namespace strata {
namespace {

TEST(HotDomainFaults, AMoveWithoutMemoryLeavesTheObject) {
  HotScene s;
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 64, 9));
  s.Round();
  s.Use(&g);
  s.memory.takes_left = 0;
  const void* before = strata_hot_peek(&g);
  s.Round();
  EXPECT_EQ(strata_hot_peek(&g), before);
  EXPECT_EQ(s.collector.counts().no_memory.load(), 1u);
  EXPECT_EQ(s.Use(&g), 9);
  strata_hot_guide none{};
  EXPECT_FALSE(s.Make(&none, 1 << 20, 0));
  s.memory.takes_left = ~size_t{0};
  s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kHot);
  s.Drop(&g);
}

TEST(HotDomainFaults, NearTheLimitNothingMovesThatNeedsMemoryItCannotHave) {
  HotScene s;
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 64, 9));
  s.Round();
  s.Use(&g);
  s.memory.room = 1 << 20;
  s.memory.swap = 1 << 20;
  s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kNew);
  s.memory.swap = uint64_t{1} << 30;  // where other pages can go
  s.Use(&g);
  s.Round();
  EXPECT_EQ(s.HeapOf(g), HotHeap::kHot);
  s.Drop(&g);
}

// Cold objects that are in use again, and nowhere to put them: one is tried in a round, and rounds
// grow rare. With memory again all move.
void ManyWithoutRoom(void (*no_room)(FakeHotMemory&), void (*room)(FakeHotMemory&),
                     std::atomic<uint64_t> CollectorCounts::* reason) {
  HotScene s;
  std::vector<strata_hot_guide> guides(9000);
  for (strata_hot_guide& g : guides) ASSERT_TRUE(s.Make(&g, 256, 7));
  for (uint32_t i = 0; i <= kWindowsToCold; ++i) s.Round();
  ASSERT_EQ(s.HeapOf(guides[0]), HotHeap::kCold);
  const uint64_t moved = s.collector.counts().moves;
  no_room(s.memory);
  uint64_t wait = 0;
  constexpr uint64_t kRounds = 6;
  for (uint64_t i = 0; i < kRounds; ++i) {
    for (strata_hot_guide& g : guides) s.Use(&g);
    const uint64_t began = s.memory.now;
    s.Round();
    wait = s.collector.due_ns() - began;
  }
  EXPECT_EQ((s.collector.counts().*reason).load(), kRounds);
  EXPECT_EQ(s.collector.counts().moves.load(), moved);
  EXPECT_GE(wait, 15 * s.options.period_ns);
  room(s.memory);
  for (strata_hot_guide& g : guides) s.Use(&g);
  s.Round();
  for (strata_hot_guide& g : guides) {
    EXPECT_EQ(s.HeapOf(g), HotHeap::kHot);
    EXPECT_TRUE(AllBytesAre(g, 256, 7));
    s.Drop(&g);
  }
}

TEST(HotDomainFaults, NearTheLimitOneMoveIsTriedInARound) {
  ManyWithoutRoom([](FakeHotMemory& m) { m.room = 1 << 20, m.swap = 0; },
                  [](FakeHotMemory& m) { m.room = INT64_MAX; }, &CollectorCounts::near_limit);
}

TEST(HotDomainFaults, WithoutMemoryOneMoveIsTriedInARound) {
  ManyWithoutRoom([](FakeHotMemory& m) { m.takes_left = 0; },
                  [](FakeHotMemory& m) { m.takes_left = ~size_t{0}; }, &CollectorCounts::no_memory);
}

TEST(HotDomainFaults, RefusedAdviceAndNoSwapLoseNothing) {
  HotScene s;
  s.memory.refuses_advice = true;
  strata_hot_guide g{};
  ASSERT_TRUE(s.Make(&g, 3000, 5));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 6; ++i) s.Round();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "strata: the kernel refuses advice (madvise): cold pages of hot_ptr objects stay until "
            "memory is short\n");
  EXPECT_EQ(s.HeapOf(g), HotHeap::kCold);
  EXPECT_EQ(s.collector.counts().paged_out_bytes.load(), 0u);
  s.memory.refuses_advice = false;
  s.memory.swap = 0;
  testing::internal::CaptureStderr();
  s.Round();
  s.Round();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "strata: no swap space is free: cold pages of hot_ptr objects stay in memory\n");
  EXPECT_GT(s.memory.advice[static_cast<int>(PageAdvice::kCold)].load(), 0u);
  EXPECT_TRUE(AllBytesAre(g, 3000, 5));
  s.Drop(&g);
}

// One that takes long for its work falls behind: its windows grow.
TEST(HotDomainFaults, RoundsTakeNoMoreThanTheirShareOfACpu) {
  CollectorOptions o;
  o.period_ns = 1;
  HotScene s(o);
  std::vector<strata_hot_guide> guides(1000);
  for (strata_hot_guide& g : guides) ASSERT_TRUE(s.Make(&g, 1024, 3));
  for (uint32_t i = 0; i <= kWindowsToCold; ++i) {
    const uint64_t began = s.memory.now, before = s.collector.counts().cpu_ns;
    s.Round();
    const uint64_t cpu = s.collector.counts().cpu_ns - before;
    EXPECT_GE(s.collector.due_ns(), began + 99 * cpu) << i;
  }
  for (strata_hot_guide& g : guides) s.Drop(&g);
}

}  // namespace
}  // namespace strata
