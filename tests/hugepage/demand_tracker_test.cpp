// DemandTracker: the rule of two intervals, and what an idle program is judged by.
#include "hugepage/demand_tracker.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr DemandTracker::Windows kWindows{10'000, 30'000, 30'000, 4'000};
constexpr uint64_t kMs = 1'000'000;

TEST(DemandTracker, BusyDemandIsThePeakOfTheWindow) {
  DemandTracker d(kWindows);
  uint64_t now = 1'000'000 * kMs;
  d.Advance(now, CallRate::kBusy);
  d.Record(1000);
  d.Record(100);
  for (int s = 0; s < 9; ++s) {
    d.Advance(now += 1000 * kMs, CallRate::kBusy);
    EXPECT_EQ(d.Demand(), 1000u) << s;
  }
  for (int s = 0; s < 40; ++s) d.Advance(now += 1000 * kMs, CallRate::kBusy);
  EXPECT_EQ(d.Demand(), 100u);
}

// The longest interval that can be set.
TEST(DemandTracker, AnHourIsHeld) {
  constexpr uint32_t kHour = 3'600'000;
  for (const uint64_t step : {500, 1000, 1700}) {
    DemandTracker busy({kHour, kHour, kHour, kHour});
    uint64_t now = 5'000 * kMs;
    busy.Advance(now, CallRate::kBusy);
    busy.Record(1000);
    busy.Record(100);
    busy.Advance(now += step * kMs, CallRate::kBusy);
    const uint64_t burst = now;
    while (now - burst < (kHour - 2000) * kMs) {
      busy.Advance(now += step * kMs, CallRate::kBusy);
      ASSERT_EQ(busy.Demand(), 1000u) << (now - burst) / kMs;
    }
    while (now - burst < (kHour + kHour / 50) * kMs)
      busy.Advance(now += step * kMs, CallRate::kBusy);
    EXPECT_EQ(busy.Demand(), 100u);
  }
}

TEST(DemandTracker, SwingOfTheShortWindowAndLevelOfTheLongOneAdd) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Record(500);
  d.Advance(now, CallRate::kBusy);
  // A level of 500, then twenty seconds at 100 with swings of 50: 500 was a level within the long
  // window.
  for (int s = 0; s < 3; ++s) d.Advance(now += 1000 * kMs, CallRate::kBusy);
  d.Record(100);
  for (int s = 0; s < 20; ++s) {
    d.Record(150);
    d.Record(100);
    d.Advance(now += 1000 * kMs, CallRate::kBusy);
  }
  EXPECT_EQ(d.Demand(), 500u);  // 50 + 500, but never above the peak
  for (int s = 0; s < 15; ++s) {
    d.Record(150);
    d.Record(100);
    d.Advance(now += 1000 * kMs, CallRate::kBusy);
  }
  EXPECT_EQ(d.Demand(), 150u);
}

TEST(DemandTracker, IdleProgramForgetsAfterIdleMs) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Advance(now, CallRate::kBusy);
  d.Record(1000);
  d.Record(50);
  d.Advance(now += 700 * kMs, CallRate::kBusy);
  for (int s = 1; s <= 4; ++s) {
    d.Advance(now += 1000 * kMs, CallRate::kIdle);
    EXPECT_EQ(d.Demand(), s < 4 ? 1000u : 50u) << s;
  }
  // One busy second ends the idleness, and the longer memory counts again.
  d.Advance(now += 1000 * kMs, CallRate::kBusy);
  EXPECT_EQ(d.Demand(), 1000u);
}

TEST(DemandTracker, UseInTheOpenEpochCountsAtOnce) {
  DemandTracker d(kWindows);
  d.Advance(kMs, CallRate::kBusy);
  d.Record(70);
  EXPECT_EQ(d.Demand(), 70u);
}

TEST(DemandTracker, PublishedIntervalsFit) {
  DemandTracker d({60'000, 300'000, 600'000, 4'000});
  uint64_t now = kMs;
  d.Advance(now, CallRate::kBusy);
  d.Record(900);
  d.Record(10);
  for (int s = 0; s < 59; ++s) d.Advance(now += 1000 * kMs, CallRate::kBusy);
  EXPECT_EQ(d.Demand(), 900u);
  for (int s = 0; s < 600; ++s) d.Advance(now += 1000 * kMs, CallRate::kBusy);
  EXPECT_EQ(d.Demand(), 10u);
}

// Epochs in which use came down again: what they never fell below is what they had least, and how
// far they swung is forgotten first.
TEST(DemandTracker, ABurstOfLongAgoIsNoLevel) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Record(100);
  d.Advance(now, CallRate::kBusy);
  d.Advance(now += 1000 * kMs, CallRate::kBusy);
  d.Record(1000);
  d.Advance(now += 1000 * kMs, CallRate::kBusy);  // this epoch began at 100
  d.Record(100);
  d.Advance(now += 1000 * kMs, CallRate::kBusy);  // and this one at 1000
  EXPECT_EQ(d.Demand(), 1000u);
  for (int s = 0; s < 15; ++s) d.Advance(now += 1000 * kMs, CallRate::kBusy);
  EXPECT_EQ(d.Demand(), 100u);  // the peak is remembered for 30 s, the swing for 10
}

TEST(DemandTracker, AnEpochOutlastsCallsThatComeSooner) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Record(100);
  d.Advance(now, CallRate::kBusy);
  d.Advance(now += 1000 * kMs, CallRate::kBusy);
  // Up and down in ten steps within half a second: no part of it is a level.
  for (const size_t used : {200, 300, 400, 500, 500, 400, 300, 200, 100}) {
    d.Record(used);
    d.Advance(now += 50 * kMs, CallRate::kBusy);
  }
  for (int s = 0; s < 15; ++s) d.Advance(now += 1000 * kMs, CallRate::kBusy);
  EXPECT_EQ(d.Demand(), 100u);
}

TEST(DemandTracker, TheOpenEpochHasALevelAndASwing) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Advance(now, CallRate::kBusy);
  d.Record(700);
  d.Advance(now += 1000 * kMs, CallRate::kBusy);
  d.Record(800);
  EXPECT_EQ(d.Demand(), 800u);  // never below 700 since, after a swing of as much
  d.Record(0);
  EXPECT_EQ(d.Demand(), 800u);
}

TEST(DemandTracker, ItIsIdleAfterHalfOfItsInterval) {
  DemandTracker d(kWindows);
  uint64_t now = 50'000 * kMs;
  d.Advance(now, CallRate::kBusy);
  for (int s = 0; s <= 3; ++s) {
    d.Advance(now += 1000 * kMs, CallRate::kIdle);
    EXPECT_EQ(d.idle(), s >= 2) << s;  // 4 s, half of which are 2
  }
  d.Advance(now += 1000 * kMs, CallRate::kBusy);
  EXPECT_FALSE(d.idle());
  d.Advance(now += 1000 * kMs, CallRate::kIdle);
  EXPECT_FALSE(d.idle());  // counted anew
}

TEST(DemandTracker, AnIdleProgramsOpenEpochCountsToo) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Advance(now, CallRate::kBusy);
  d.Record(50);
  for (int s = 0; s < 10; ++s) d.Advance(now += 1000 * kMs, CallRate::kIdle);
  ASSERT_TRUE(d.idle());
  EXPECT_EQ(d.Demand(), 50u);
  d.Record(5000);
  EXPECT_EQ(d.Demand(), 5000u);
}

}  // namespace
}  // namespace strata
