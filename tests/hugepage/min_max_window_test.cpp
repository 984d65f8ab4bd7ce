// MinMaxWindow: each slot counts for as long as it should and no longer, whatever happened, or did
// not happen, in between.
#include "hugepage/min_max_window.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct MinMaxWindowTest : testing::Test {
  MinMaxWindowTest() { window.Report(now - 100 * kSecond, 60); }

  MinMaxWindow window{16 * kSecond};  // a slot is a second
  uint64_t now = 1000 * kSecond;
};

TEST_F(MinMaxWindowTest, LooksAtNoMoreSlotsThanAsked) {
  window.Report(now, 5);
  window.Report(now, 900);
  window.Report(now, 7);
  for (uint64_t s = 1; s <= 20; ++s) {
    const uint64_t then = now + s * kSecond;
    window.Report(then, 7);
    // The second in which it was 5 and 900 is s slots back.
    for (uint64_t over = 1; over <= 16; ++over) {
      EXPECT_EQ(window.Max(then, over * kSecond), over > s ? 900u : 7u) << s << " " << over;
      EXPECT_EQ(window.Min(then, over * kSecond), over > s ? 5u : 7u) << s << " " << over;
    }
  }
}

TEST_F(MinMaxWindowTest, WithoutAReportTheLastValueStands) {
  window.Report(now, 50);
  window.Report(now, 40);
  for (const uint64_t gap : {1, 3, 15, 16, 17, 1000}) {
    now += gap * kSecond;
    EXPECT_EQ(window.Max(now, kSecond), 40u) << gap;
    EXPECT_EQ(window.Min(now, 16 * kSecond), 40u) << gap;
  }
  EXPECT_EQ(window.Max(now, 16 * kSecond), 40u);
}

TEST_F(MinMaxWindowTest, ASlotKeepsItsExtremes) {
  for (const size_t value : {70, 3, 120, 8}) window.Report(now, value);
  EXPECT_EQ(window.Max(now, kSecond), 120u);
  EXPECT_EQ(window.Min(now, kSecond), 3u);
}

// A thread may read the clock before another and come after it.
TEST_F(MinMaxWindowTest, AClockThatGoesBackChangesNothing) {
  window.Report(now, 10);
  window.Report(now + 5 * kSecond, 20);
  window.Report(now + 2 * kSecond, 30);  // counts as of the present
  EXPECT_EQ(window.Max(now + 5 * kSecond, kSecond), 30u);
  EXPECT_EQ(window.Min(now + 5 * kSecond, kSecond), 10u);  // it stood when that second began
  EXPECT_EQ(window.Max(now + 6 * kSecond, kSecond), 30u);
  EXPECT_EQ(window.Min(now + 6 * kSecond, 2 * kSecond), 10u);
  EXPECT_EQ(window.Min(now + 7 * kSecond, 2 * kSecond), 30u);
}

TEST(MinMaxWindow, AtTheVeryStartThereIsNothingBefore) {
  MinMaxWindow window{16 * kSecond};
  window.Report(0, 5);
  EXPECT_EQ(window.Max(0, 16 * kSecond), 5u);
  EXPECT_EQ(window.Min(kSecond, kSecond), 5u);
  EXPECT_EQ(window.Min(kSecond, 16 * kSecond), 0u);
}

}  // namespace
}  // namespace strata
