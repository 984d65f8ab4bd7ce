// How often a block is guarded by default: programs that use more or less of their CPUs, on clocks
// that the test moves.
#include "heaps/guard_pace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace strata {
namespace {

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;

struct FakeClocks {
  uint64_t now = 1000 * kSecond;
  uint64_t cpu = 0;
  size_t looks = 0;  // at the time of the process
  bool confined = false;

  uint64_t CoarseNowNs() const { return now; }
  bool MayReadProcessCpu() const { return !confined; }
  uint64_t ProcessCpuNs() {
    ++looks;
    return cpu;
  }
};

using Pace = GuardPace<FakeClocks>;

// A process of which a thread asks each half of a millisecond.
struct Process {
  FakeClocks clocks;
  Pace pace;
  size_t pages = 0;

  void Wait(uint64_t ns) { clocks.now += ns; }
  // Uses `percent` of a CPU; how many blocks were guarded.
  size_t Run(uint64_t ns, uint64_t percent) {
    constexpr uint64_t kStep = kMs / 2;
    size_t taken = 0;
    for (const uint64_t end = clocks.now + ns; clocks.now < end; clocks.now += kStep) {
      clocks.cpu += kStep * percent / 100;
      taken += pace.TakeTurn(clocks, pages) ? 1 : 0;
    }
    return taken;
  }
  uint64_t Paid() const { return clocks.cpu / Pace::kCpuForOneNs; }
};

class GuardPaceAtLoad : public testing::TestWithParam<int> {};

TEST_P(GuardPaceAtLoad, TakesThePartOfTheCpuTimeThatItMay) {
  Process p;
  const size_t taken = p.Run(60 * kSecond, static_cast<uint64_t>(GetParam()));
  EXPECT_LE(taken, p.Paid());
  EXPECT_GE(taken, p.Paid() * 9 / 10);
}
INSTANTIATE_TEST_SUITE_P(Percent, GuardPaceAtLoad, testing::Values(2, 10, 40, 73, 100));

TEST_P(GuardPaceAtLoad, LooksAtTheTimeOfTheProcessLessOftenThanItGuards) {
  Process p;
  const size_t taken = p.Run(60 * kSecond, static_cast<uint64_t>(GetParam()));
  // Where it uses little, five times a second at most.
  EXPECT_LE(p.clocks.looks, std::max<size_t>(taken * 3 / 4, 5 * 60) + 5);
}

TEST(GuardPace, LeavesAGapHoweverManyThreadsCompute) {
  Process p;
  const size_t taken = p.Run(10 * kSecond, 6400);
  EXPECT_LE(taken, 1000u);
  EXPECT_GE(taken, 950u);
}

TEST(GuardPace, BeginsOnceTheProcessHasPaidForOne) {
  Process p;
  EXPECT_EQ(p.Run(9 * kMs, 100), 0u);
  // It waits for some blocks' worth, as if the process were busy.
  EXPECT_GE(p.Run(91 * kMs, 100), 1u);
}

TEST(GuardPace, GuardsOneAtOnceWhereThereWasTimeForIt) {
  Process p;
  p.clocks.cpu = 2 * Pace::kCpuForOneNs;
  EXPECT_TRUE(p.pace.TakeTurn(p.clocks, 0));
  EXPECT_FALSE(p.pace.TakeTurn(p.clocks, 0));
  p.Wait(Pace::kLeastGapNs - 1);
  EXPECT_FALSE(p.pace.TakeTurn(p.clocks, 0));
  p.Wait(1);
  EXPECT_TRUE(p.pace.TakeTurn(p.clocks, 0));
}

TEST(GuardPace, DoesNotMakeUpForALongTimeWithout) {
  Process p;
  p.clocks.cpu = 3600 * kSecond;
  p.Wait(3600 * kSecond);
  const uint64_t paid = p.Paid();
  const size_t taken = p.Run(20 * kSecond, 20);
  EXPECT_LE(taken, p.Paid() - paid + Pace::kMostSavedNs / Pace::kCpuForOneNs + 1);
  EXPECT_GE(taken, p.Paid() - paid);
}

TEST(GuardPace, IsThereSoonAfterAProgramWakes) {
  Process p;
  p.Run(100 * kSecond, 0);
  p.Wait(3600 * kSecond);
  EXPECT_GE(p.Run(2 * kSecond, 100), 50u);
}

// As one is by a loaded machine, or by a debugger.
TEST(GuardPace, IsThereSoonAfterAProgramWasHeldUpAtItsStart) {
  for (const uint64_t stall : {30 * kMs, 60 * kMs, 70 * kMs, 100 * kMs, kSecond}) {
    Process p;
    EXPECT_EQ(p.Run(12 * kMs, 100), 0u);
    p.Wait(stall);
    EXPECT_GE(p.Run(230 * kMs, 100), 1u) << stall;
  }
}

// As a thread does that was kept from its CPU after it read the time.
TEST(GuardPace, KnowsTheLatestTimeThatWasRead) {
  Process p;
  p.clocks.cpu = 10 * Pace::kCpuForOneNs;
  EXPECT_TRUE(p.pace.TakeTurn(p.clocks, 1000));
  p.Wait(Pace::kLongestWaitNs);
  p.clocks.cpu = Pace::kCpuForOneNs;
  EXPECT_FALSE(p.pace.TakeTurn(p.clocks, 1000)) << "not paid for";
  EXPECT_EQ(p.clocks.looks, 2u);
  EXPECT_TRUE(p.pace.TakeTurn(p.clocks, 0)) << "this was, before";
}

TEST(GuardPace, GoesByTheClockWhereTheCallMayBeForbidden) {
  Process p;
  p.clocks.confined = true;
  EXPECT_EQ(p.Run(Pace::kCpuForOneNs - kMs, 100), 0u);
  const size_t taken = p.Run(10 * kSecond, 3);
  EXPECT_LE(taken, 10 * kSecond / Pace::kCpuForOneNs + 1);
  EXPECT_GE(taken, 10 * kSecond / Pace::kCpuForOneNs * 9 / 10);
  p.clocks.confined = false;
  EXPECT_GE(p.Run(kSecond, 3), 45u) << "it stays with the clock";
  EXPECT_EQ(p.clocks.looks, 0u);
}

TEST(GuardPace, DoesNotCallWhileAProgramConfinesItself) {
  Process p;
  p.Run(kSecond, 100);
  const size_t looks = p.clocks.looks;
  p.clocks.confined = true;
  p.Run(3600 * kSecond, 1);
  EXPECT_EQ(p.clocks.looks, looks);
  p.clocks.confined = false;
  EXPECT_LE(p.Run(kSecond, 10), Pace::kMostSavedNs / Pace::kCpuForOneNs + 5)
      << "and the clock's time is none of its own";
}

// Each costs its pages besides.
TEST(GuardPace, LargeBlocksPayForTheirPages) {
  Process p;
  p.pages = 50;
  const size_t taken = p.Run(60 * kSecond, 100);
  EXPECT_LE(taken, 60 * kSecond / (50 * Pace::kCpuForPageNs) + 1);
  EXPECT_GE(taken, 60 * kSecond / (50 * Pace::kCpuForPageNs) * 9 / 10);
}

TEST(GuardPace, LargeBlocksDoNotTakeTheTurnsOfSmallOnes) {
  Process p;
  size_t small = 0, large = 0;
  for (int i = 0; i < 120'000; ++i) {
    p.clocks.now += kMs / 2;
    p.clocks.cpu += kMs / 2;
    large += p.pace.TakeTurn(p.clocks, 128) ? 1 : 0;
    small += p.pace.TakeTurn(p.clocks, 0) ? 1 : 0;
  }
  EXPECT_LE(large + small, p.Paid());
  EXPECT_GE(large, p.clocks.cpu / (128 * Pace::kCpuForPageNs) * 8 / 10);
  EXPECT_GE(small, p.Paid() * 8 / 10);
}

TEST(GuardPace, AChildPaysForItself) {
  Process p;
  p.Run(10 * kSecond, 100);
  p.clocks.cpu = kMs;
  p.pace.BeginAnew();
  EXPECT_EQ(p.Run(8 * kMs, 100), 0u);
  const size_t taken = p.Run(10 * kSecond, 40);
  EXPECT_LE(taken, p.Paid());
  EXPECT_GE(taken, p.Paid() * 9 / 10);
}

TEST(GuardPace, AChildDoesNotWaitAsItsParent) {
  Process p;
  p.Run(30'700 * kMs, 1);
  p.clocks.cpu = 0;
  p.pace.BeginAnew();
  EXPECT_GE(p.Run(150 * kMs, 100), 1u);
}

}  // namespace
}  // namespace strata
