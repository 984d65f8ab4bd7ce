// When memory goes back: the schedule over steps that only note what they were asked for, with a
// clock and counts that the test sets.
#include "heaps/release_schedule.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace strata {
namespace {

struct Search {
  uint32_t before;
  size_t limit;
  Program program;

  bool operator==(const Search&) const = default;
};

// One tick's calls; the schedule's ticks begin at 2.
struct Calls {
  uint32_t tick = 0;
  bool emptied_caches = false;
  std::optional<uint32_t> empty_spans_before;
  std::optional<uint32_t> surveyed_before;
  std::optional<Search> searched;
  std::optional<Program> released_pages;
  CallRate rate = CallRate::kBusy;
};

class FakeSteps {
 public:
  uint64_t now_ns = 1;
  uint64_t moves = 0;
  bool changed = true;
  size_t least_gain = 10;
  uint64_t survey_ns = 0;       // how long one takes
  uint64_t moves_by_steps = 0;  // by releasing
  Calls calls;

  uint64_t NowNs() { return now_ns; }
  uint64_t Moves() const { return moves; }
  void BeginTick(uint32_t tick) {
    calls = {};
    calls.tick = tick;
  }
  void SettleCaches(DrainScope scope) { calls.emptied_caches = scope == DrainScope::kAll; }
  void GiveEmptySpans(uint32_t before) { calls.empty_spans_before = before; }
  bool SpansChanged() { return changed; }
  size_t LeastGain(Program) const { return least_gain; }
  void Survey(uint32_t before) {
    calls.surveyed_before = before;
    now_ns += survey_ns;
  }
  size_t ReleaseSurveyed(uint32_t before, size_t limit, Program program) {
    calls.searched = Search{before, limit, program};
    return 100;
  }
  size_t ReleasePages(CallRate rate, Program program) {
    calls.released_pages = program;
    calls.rate = rate;
    moves += moves_by_steps;
    return 1000;
  }
};

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kFew = 255;  // moves of a tick that counts as idle, at the most

class ReleaseScheduleTest : public testing::Test {
 protected:
  // One tick a second later, after so many moves.
  const Calls& Tick(uint64_t moves, CpuUse cpu = CpuUse::kLittle, Giving giving = Giving::kOn) {
    steps_.now_ns += kSecond;
    steps_.moves += moves;
    last_ = schedule_.Tick(giving, cpu);
    return steps_.calls;
  }
  // The ticks at which spans were searched, of the next `n`.
  std::vector<uint32_t> SearchesIn(uint32_t n, uint64_t moves, CpuUse cpu = CpuUse::kLittle) {
    std::vector<uint32_t> at;
    for (; n > 0; --n) {
      const Calls& calls = Tick(moves, cpu);
      EXPECT_EQ(calls.searched.has_value(), calls.surveyed_before.has_value());
      if (calls.searched) at.push_back(calls.tick);
    }
    return at;
  }

  FakeSteps steps_;
  ReleaseSchedule<FakeSteps> schedule_{steps_};
  HeapTick last_;
};

TEST_F(ReleaseScheduleTest, CachesSettleAtTheSecondTickWithFewMoves) {
  Tick(kFew + 1);
  EXPECT_FALSE(last_.idle);
  EXPECT_FALSE(Tick(kFew).emptied_caches);
  EXPECT_TRUE(last_.idle);
  EXPECT_TRUE(Tick(kFew).emptied_caches);
  EXPECT_EQ(steps_.calls.rate, CallRate::kIdle);
  EXPECT_FALSE(Tick(kFew + 1).emptied_caches);
  EXPECT_EQ(steps_.calls.rate, CallRate::kBusy);
  EXPECT_FALSE(last_.idle);
}

TEST_F(ReleaseScheduleTest, SpansOfAProgramAtRestAreSearchedFromTheThirdTickOn) {
  EXPECT_EQ(SearchesIn(4, 0), (std::vector<uint32_t>{4, 5}));
  EXPECT_EQ(steps_.calls.searched, (Search{3, SIZE_MAX, Program::kRests}));
  EXPECT_EQ(steps_.calls.surveyed_before, 3u);
  EXPECT_EQ(last_.released_bytes, 1100u);
}

TEST_F(ReleaseScheduleTest, OneBusyTickEndsTheRest) {
  EXPECT_EQ(SearchesIn(4, 0), (std::vector<uint32_t>{4, 5}));
  EXPECT_EQ(SearchesIn(1, kFew + 1), (std::vector<uint32_t>{}));
  EXPECT_EQ(SearchesIn(4, 0), (std::vector<uint32_t>{9, 10}));
}

TEST_F(ReleaseScheduleTest, SpansOfABusyProgramAreSearchedEveryThirtiethTickIfUntouchedForThirty) {
  EXPECT_EQ(SearchesIn(100, kFew + 1), (std::vector<uint32_t>{60, 90}));
  while (Tick(kFew + 1).tick != 120) {
  }
  EXPECT_EQ(steps_.calls.searched, (Search{90, size_t{64} << 20, Program::kWorks}));
}

TEST_F(ReleaseScheduleTest, WhoComputesIsNotAtRest) {
  EXPECT_TRUE(SearchesIn(20, 0, CpuUse::kMuch).empty());
  EXPECT_EQ(steps_.calls.released_pages, Program::kWorks);
  EXPECT_TRUE(steps_.calls.emptied_caches);
  // Rest begins with the first tick without.
  EXPECT_EQ(SearchesIn(3, 0), (std::vector<uint32_t>{23, 24}));
  EXPECT_EQ(steps_.calls.released_pages, Program::kRests);
}

TEST_F(ReleaseScheduleTest, EmptySpansGoAfterAWholeTickUnusedAndSoonerAtRest) {
  for (uint32_t tick = 2; tick <= 30; ++tick) {
    EXPECT_FALSE(Tick(kFew + 1).empty_spans_before) << tick;
  }
  EXPECT_EQ(Tick(kFew + 1).empty_spans_before, 29u);
  Tick(0);
  EXPECT_EQ(Tick(0).empty_spans_before, 31u);
  EXPECT_EQ(Tick(0).empty_spans_before, 33u);
}

TEST_F(ReleaseScheduleTest, ASurveyIsFollowedByFiftyTimesItsLength) {
  // A little over three seconds from its end, so the fourth tick is the first that may.
  steps_.survey_ns = kSecond * 602 / 10'000;
  EXPECT_EQ(SearchesIn(15, 0), (std::vector<uint32_t>{4, 8, 12, 16}));
}

TEST_F(ReleaseScheduleTest, WhatDidNotChangeIsNotSearchedAgain) {
  EXPECT_EQ(SearchesIn(3, 0).size(), 1u);
  steps_.changed = false;
  EXPECT_TRUE(SearchesIn(50, 0).empty());
  steps_.changed = true;
  EXPECT_EQ(SearchesIn(1, 0).size(), 1u);
}

TEST_F(ReleaseScheduleTest, ASearchIsWorthWhileAgainWhenLessHasToBeGained) {
  EXPECT_EQ(SearchesIn(3, 0).size(), 1u);
  steps_.changed = false;
  steps_.least_gain = 9;
  EXPECT_EQ(SearchesIn(5, 0).size(), 1u);
  // More asked for in between: then what it was before is less.
  steps_.least_gain = 20;
  EXPECT_TRUE(SearchesIn(1, 0).empty());
  steps_.least_gain = 9;
  EXPECT_EQ(SearchesIn(5, 0).size(), 1u);
}

TEST_F(ReleaseScheduleTest, WhatReleasingMovesIsNotTheProgramsWork) {
  steps_.moves_by_steps = 10 * kFew;
  for (int i = 0; i < 3; ++i) Tick(0);
  EXPECT_TRUE(last_.idle);
  EXPECT_TRUE(steps_.calls.searched);
}

TEST_F(ReleaseScheduleTest, WithReleaseOffOnlyTheCachesSettle) {
  for (int i = 0; i < 70; ++i) {
    const Calls& calls = Tick(kFew, CpuUse::kLittle, Giving::kOff);
    EXPECT_EQ(calls.emptied_caches, i > 0);
    EXPECT_FALSE(calls.empty_spans_before || calls.surveyed_before || calls.released_pages);
    EXPECT_EQ(last_.released_bytes, 0u);
  }
  EXPECT_TRUE(last_.idle);
}

}  // namespace
}  // namespace strata
