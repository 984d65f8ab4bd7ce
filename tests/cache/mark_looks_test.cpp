// When frees look at their objects: each time, until many waited for them.
#include "cache/mark_looks.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr uint64_t kClockNs = 25;  // what reading the clock takes
constexpr uint64_t kCacheNs = kClockNs + 10;
constexpr uint64_t kMemoryNs = kClockNs + 90;

// The last answer of n notes, of which one in `every` waited for memory; 0: none.
uint32_t Note(MarkLooks& looks, int n, int every) {
  uint32_t last = 0;
  for (int i = 1; i <= n; ++i)
    last = looks.Note(every != 0 && i % every == 0 ? kMemoryNs : kCacheNs);
  return last;
}

TEST(MarkLooks, EachLooksWhereFreesDoNotWait) {
  MarkLooks looks;
  EXPECT_EQ(looks.Note(kClockNs), MarkLooks::kEach);
  EXPECT_EQ(Note(looks, 1000, 0), MarkLooks::kEach);
}

TEST(MarkLooks, FewLookSoonAfterAllBeginToWait) {
  MarkLooks looks;
  looks.Note(kClockNs);
  EXPECT_EQ(Note(looks, 3, 1), MarkLooks::kEach);
  EXPECT_EQ(Note(looks, 3, 1), MarkLooks::kSeldom);
}

TEST(MarkLooks, OneThatWaitsInEightIsEnoughOneInFiftyIsNot) {
  MarkLooks some, hardly;
  some.Note(kClockNs);
  hardly.Note(kClockNs);
  EXPECT_EQ(Note(some, 400, 8), MarkLooks::kSeldom);
  EXPECT_EQ(Note(hardly, 400, 50), MarkLooks::kEach);
}

TEST(MarkLooks, HowLongOneWaitedDoesNotCount) {
  MarkLooks looks;
  looks.Note(kClockNs);
  EXPECT_EQ(looks.Note(20'000'000), MarkLooks::kEach);
}

TEST(MarkLooks, EachLooksAgainOnceFreesAreWarm) {
  MarkLooks looks;
  looks.Note(kClockNs);
  EXPECT_EQ(Note(looks, 400, 1), MarkLooks::kSeldom);
  EXPECT_EQ(Note(looks, 400, 0), MarkLooks::kEach);
}

// It stays as it is between the two bounds.
TEST(MarkLooks, DoesNotWaverAtTheBound) {
  MarkLooks looks;
  looks.Note(kClockNs);
  EXPECT_EQ(Note(looks, 400, 22), MarkLooks::kEach);
  EXPECT_EQ(Note(looks, 400, 8), MarkLooks::kSeldom);
  EXPECT_EQ(Note(looks, 400, 22), MarkLooks::kSeldom);
}

// A clock that takes a system call waits longer than any memory.
TEST(MarkLooks, ASlowClockIsNotTakenForSlowMemory) {
  MarkLooks looks;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(looks.Note(900), MarkLooks::kEach);
}

TEST(MarkLooks, TimesOneInFour) {
  MarkLooks looks;
  int timed = 0;
  for (int i = 0; i < 400; ++i) timed += looks.IsTimed() ? 1 : 0;
  EXPECT_EQ(timed, 100);
}

}  // namespace
}  // namespace strata
