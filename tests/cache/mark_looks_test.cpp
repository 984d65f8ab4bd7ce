// When frees look at their objects: each time, until many waited for them.
#include "cache/mark_looks.h"

#include <gtest/gtest.h>

#include <random>

namespace strata {
namespace {

enum class Lies { kInCache, kInMemory };

class MarkLooksTest : public testing::Test {
 protected:
  // Of a clock whose reading takes `clock_ns_` and that shows whole ticks.
  uint32_t Note(Lies lies) {
    const uint64_t begin = now_;
    const uint64_t before = begin + clock_ns_;
    const uint64_t after = before + clock_ns_ + (lies == Lies::kInMemory ? 90 : 2);
    now_ = after + random_() % 1000;
    return last_ = looks_.Note(Shown(begin), Shown(before), Shown(after));
  }
  // The last answer of n, of which one in `every` waited for memory; 0: none.
  uint32_t Note(int n, int every) {
    for (int i = 1; i <= n; ++i)
      Note(every != 0 && i % every == 0 ? Lies::kInMemory : Lies::kInCache);
    return last_;
  }
  uint64_t Shown(uint64_t ns) const { return ns / tick_ns_ * tick_ns_; }

  MarkLooks looks_;
  uint64_t clock_ns_ = 25;
  uint64_t tick_ns_ = 1;
  uint64_t now_ = 1'000'000;
  uint32_t last_ = MarkLooks::kEach;
  std::minstd_rand random_{7};
};

TEST_F(MarkLooksTest, EachLooksWhereFreesDoNotWait) {
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(Note(Lies::kInCache), MarkLooks::kEach);
}

TEST_F(MarkLooksTest, FewLookSoonAfterAllBeginToWait) {
  EXPECT_EQ(Note(5, 1), MarkLooks::kEach);
  EXPECT_EQ(Note(15, 1), MarkLooks::kSeldom);
}

TEST_F(MarkLooksTest, OneThatWaitsInEightIsEnough) { EXPECT_EQ(Note(400, 8), MarkLooks::kSeldom); }

TEST_F(MarkLooksTest, OneThatWaitsInFiftyIsNot) { EXPECT_EQ(Note(400, 50), MarkLooks::kEach); }

TEST_F(MarkLooksTest, HowLongOneWaitedDoesNotCount) {
  EXPECT_EQ(looks_.Note(0, 25, 20'000'000), MarkLooks::kEach);
}

TEST_F(MarkLooksTest, EachLooksAgainOnceFreesAreWarm) {
  EXPECT_EQ(Note(400, 1), MarkLooks::kSeldom);
  EXPECT_EQ(Note(400, 0), MarkLooks::kEach);
}

// It stays as it is between the two bounds.
TEST_F(MarkLooksTest, DoesNotWaverAtTheBound) {
  EXPECT_EQ(Note(400, 22), MarkLooks::kEach);
  EXPECT_EQ(Note(400, 8), MarkLooks::kSeldom);
  EXPECT_EQ(Note(400, 22), MarkLooks::kSeldom);
}

// The processor slows down, or the machine moves to where reading the clock takes a system call.
TEST_F(MarkLooksTest, ASlowerClockIsNotTakenForSlowMemory) {
  Note(1000, 0);
  for (clock_ns_ = 60; clock_ns_ < 1000; clock_ns_ *= 2) {
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(Note(Lies::kInCache), MarkLooks::kEach) << clock_ns_;
  }
}

// Counters of 54 and 25 MHz, which many arm64 boards have.
TEST_F(MarkLooksTest, AClockThatTicksSlowlyIsNotTakenForSlowMemory) {
  for (const uint64_t tick : {18u, 40u}) {
    tick_ns_ = tick;
    for (int i = 0; i < 100'000; ++i) ASSERT_EQ(Note(Lies::kInCache), MarkLooks::kEach) << tick;
  }
}

TEST_F(MarkLooksTest, TimesOneInFour) {
  int timed = 0;
  for (int i = 0; i < 400; ++i) timed += looks_.IsTimed() ? 1 : 0;
  EXPECT_EQ(timed, 100);
}

}  // namespace
}  // namespace strata
