// The policy as a function: Ct doubles above the target, falls by one below half of it, and stays
// within its bounds.
#include "hotness/promotion_policy.h"

#include <gtest/gtest.h>

#include "hotness/guide.h"

namespace strata {
namespace {

PromotionPlan After(double rate, uint32_t ct, uint64_t windows = 100) {
  const auto cold = static_cast<uint64_t>(rate * 1e6);
  return PromotionPolicy::Decide({1'000'000, cold, 0.01, ct, windows});
}

TEST(PromotionPolicy, HoldsTheRateAtTheTarget) {
  EXPECT_EQ(After(0.05, 3).cold_after, 6u);
  EXPECT_EQ(After(0.05, 20).cold_after, PromotionPolicy::kMost);
  EXPECT_EQ(After(0.007, 6).cold_after, 6u);
  EXPECT_EQ(After(0.004, 6).cold_after, 5u);
  EXPECT_EQ(After(0, 1).cold_after, PromotionPolicy::kLeast);
  EXPECT_TRUE(After(0.01, 6).page_out);
  EXPECT_FALSE(After(0.011, 6).page_out);
}

TEST(PromotionPolicy, WaitsUntilSomethingCanBeCold) {
  EXPECT_EQ(After(0, 3, PromotionPolicy::kFirst).cold_after, 3u);
  EXPECT_EQ(After(0, 3, PromotionPolicy::kFirst + 1).cold_after, 2u);
}

TEST(PromotionPolicy, NothingUsedIsNoMiss) {
  const PromotionPlan p = PromotionPolicy::Decide({0, 0, 0.01, 3, 9});
  EXPECT_EQ(p.rate, 0);
  EXPECT_TRUE(p.page_out);
}

// A rate that falls with Ct, as real ones do: the loop finds the least Ct that keeps the target.
TEST(PromotionPolicy, SettlesWhereTheTargetIs) {
  uint32_t ct = PromotionPolicy::kFirst;
  uint32_t above = 0;
  for (int i = 0; i < 200; ++i) {
    const double rate = 0.1 / (ct * ct);
    if (i >= 100 && rate > 0.01) ++above;
    ct = After(rate, ct).cold_after;
  }
  EXPECT_LT(above, 34u);  // it tries a smaller one now and then
  EXPECT_LE(ct, 8u);
}

TEST(Guide, WindowsAreCountedAndForgotten) {
  int object = 0;
  GuideWord w = GuideWord::Fresh(&object, HotHeap::kNew);
  EXPECT_TRUE(w.used() && w.fresh());
  w = w.NextWindow(1);
  EXPECT_FALSE(w.used() || w.fresh());
  EXPECT_EQ(w.idle(), 0u);
  EXPECT_TRUE(w.SeenIn(1) && w.SeenIn(5) && !w.SeenIn(2));
  for (uint64_t round = 2; round < 100; ++round) w = w.NextWindow(round);
  EXPECT_EQ(w.idle(), GuideWord::kMostIdle);
  w = w.With(GuideWord::kUsed).NextWindow(100);
  EXPECT_EQ(w.idle(), 0u);
  EXPECT_EQ(w.object(), &object);
  int copy = 0;
  EXPECT_EQ(w.At(&copy, HotHeap::kCold).object(), &copy);
  EXPECT_EQ(w.At(&copy, HotHeap::kCold).heap(), HotHeap::kCold);
}

}  // namespace
}  // namespace strata
