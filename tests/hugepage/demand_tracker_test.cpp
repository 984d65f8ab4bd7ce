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
  d.Advance(now, false);
  d.Record(1000);
  d.Record(100);
  for (int s = 0; s < 9; ++s) {
    d.Advance(now += 1000 * kMs, false);
    EXPECT_EQ(d.Demand(), 1000u) << s;
  }
  for (int s = 0; s < 40; ++s) d.Advance(now += 1000 * kMs, false);
  EXPECT_EQ(d.Demand(), 100u);
}

// The longest interval that can be set.
TEST(DemandTracker, AnHourIsHeld) {
  constexpr uint32_t kHour = 3'600'000;
  for (const uint64_t step : {500, 1000, 1700}) {
    DemandTracker busy({kHour, kHour, kHour, kHour});
    uint64_t now = 5'000 * kMs;
    busy.Advance(now, false);
    busy.Record(1000);
    busy.Record(100);
    busy.Advance(now += step * kMs, false);
    const uint64_t burst = now;
    while (now - burst < (kHour - 2000) * kMs) {
      busy.Advance(now += step * kMs, false);
      ASSERT_EQ(busy.Demand(), 1000u) << (now - burst) / kMs;
    }
    while (now - burst < (kHour + kHour / 50) * kMs) busy.Advance(now += step * kMs, false);
    EXPECT_EQ(busy.Demand(), 100u);
  }
}

TEST(DemandTracker, SwingOfTheShortWindowAndLevelOfTheLongOneAdd) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Record(500);
  d.Advance(now, false);
  // A level of 500, then twenty seconds at 100 with swings of 50: 500 was a level within the long
  // window.
  for (int s = 0; s < 3; ++s) d.Advance(now += 1000 * kMs, false);
  d.Record(100);
  for (int s = 0; s < 20; ++s) {
    d.Record(150);
    d.Record(100);
    d.Advance(now += 1000 * kMs, false);
  }
  EXPECT_EQ(d.Demand(), 500u);  // 50 + 500, but never above the peak
  for (int s = 0; s < 15; ++s) {
    d.Record(150);
    d.Record(100);
    d.Advance(now += 1000 * kMs, false);
  }
  EXPECT_EQ(d.Demand(), 150u);
}

TEST(DemandTracker, IdleProgramForgetsAfterIdleMs) {
  DemandTracker d(kWindows);
  uint64_t now = kMs;
  d.Advance(now, false);
  d.Record(1000);
  d.Record(50);
  d.Advance(now += 700 * kMs, false);
  for (int s = 1; s <= 4; ++s) {
    d.Advance(now += 1000 * kMs, true);
    EXPECT_EQ(d.Demand(), s < 4 ? 1000u : 50u) << s;
  }
  // One busy second ends the idleness, and the longer memory counts again.
  d.Advance(now += 1000 * kMs, false);
  EXPECT_EQ(d.Demand(), 1000u);
}

TEST(DemandTracker, UseInTheOpenEpochCountsAtOnce) {
  DemandTracker d(kWindows);
  d.Advance(kMs, false);
  d.Record(70);
  EXPECT_EQ(d.Demand(), 70u);
}

TEST(DemandTracker, PublishedIntervalsFit) {
  DemandTracker d({60'000, 300'000, 600'000, 4'000});
  uint64_t now = kMs;
  d.Advance(now, false);
  d.Record(900);
  d.Record(10);
  for (int s = 0; s < 59; ++s) d.Advance(now += 1000 * kMs, false);
  EXPECT_EQ(d.Demand(), 900u);
  for (int s = 0; s < 600; ++s) d.Advance(now += 1000 * kMs, false);
  EXPECT_EQ(d.Demand(), 10u);
}

}  // namespace
}  // namespace strata
