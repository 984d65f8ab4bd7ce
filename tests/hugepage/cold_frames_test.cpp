// ColdFrames: what makes frames cold, what makes them warm again, and for how long either holds.
#include "hugepage/cold_frames.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr uint64_t kFastNs = 200'000, kSlowNs = 4'000'000;

struct ColdFramesTest : testing::Test {
  void Touch(uint64_t ns, size_t times = 1) {
    for (size_t i = 0; i < times; ++i) cold.NoteTouches(ns, 1, now_s);
  }
  // Fast ones in a row until frames are warm.
  size_t FastOnesThatEndIt() {
    size_t n = 0;
    for (; cold.likely(now_s) && n < 100; ++n) Touch(kFastNs);
    return n;
  }

  ColdFrames cold;
  uint32_t now_s = 1000;
};

TEST_F(ColdFramesTest, NothingIsKnownToBeginWith) {
  EXPECT_FALSE(cold.likely(now_s) || cold.surely_warm(now_s));
  EXPECT_EQ(cold.mean_ns(), 0u);
}

TEST_F(ColdFramesTest, OneSlowTouchIsEnoughWhereNothingIsKnown) {
  ColdFrames other = cold;
  cold.NoteTouches(3'600'000, 1, now_s);
  EXPECT_FALSE(cold.likely(now_s));
  other.NoteTouches(3'600'004, 1, now_s);
  EXPECT_TRUE(other.likely(now_s));
  EXPECT_EQ(other.mean_ns(), 1'200'001u);
}

TEST_F(ColdFramesTest, AFastTouchIsWarmForSomeSeconds) {
  Touch(kFastNs);
  EXPECT_TRUE(cold.surely_warm(now_s + 4));
  EXPECT_FALSE(cold.surely_warm(now_s + 5));
}

// The kernel may have moved pages to find one.
TEST_F(ColdFramesTest, AmongFastTouchesASlowOneIsNoMatterAndTwoAre) {
  Touch(kFastNs, 4);
  Touch(kSlowNs);
  EXPECT_FALSE(cold.likely(now_s));
  Touch(kSlowNs);
  EXPECT_TRUE(cold.likely(now_s));
}

TEST_F(ColdFramesTest, WhatWasFastLongAgoSaysNothing) {
  Touch(kFastNs, 4);
  now_s += 5;
  Touch(kSlowNs);
  EXPECT_TRUE(cold.likely(now_s));
}

TEST_F(ColdFramesTest, TouchesThatAreNotFastAddUp) {
  Touch(2'000'000, 2);
  EXPECT_FALSE(cold.likely(now_s) || cold.surely_warm(now_s));
  Touch(2'000'000);
  EXPECT_TRUE(cold.likely(now_s));
}

TEST_F(ColdFramesTest, SeveralFastTouchesEndIt) {
  Touch(kSlowNs);
  EXPECT_EQ(FastOnesThatEndIt(), 6u);
  EXPECT_TRUE(cold.surely_warm(now_s));
}

TEST_F(ColdFramesTest, HoweverSlowOneWasADozenFastOnesEndIt) {
  Touch(1'000'000'000'000);
  EXPECT_EQ(FastOnesThatEndIt(), 9u);
  Touch(1'000'000'000'000, 20);
  EXPECT_EQ(FastOnesThatEndIt(), 13u);
}

TEST_F(ColdFramesTest, ManyTouchesAtOnceCountAsMany) {
  cold.NoteTouches(2'400'000, 2, now_s);
  EXPECT_EQ(cold.mean_ns(), 1'400'000u);
  cold.NoteTouches(kFastNs, 10, now_s);
  EXPECT_EQ(cold.mean_ns(), kFastNs);
  EXPECT_FALSE(cold.likely(now_s));
}

TEST_F(ColdFramesTest, AMinuteAfterTheLastSlowTouchItIsOpenAgain) {
  Touch(kSlowNs);
  now_s += 30;
  Touch(kSlowNs);
  EXPECT_TRUE(cold.likely(now_s + 59));
  now_s += 20;
  Touch(kFastNs);
  EXPECT_TRUE(cold.likely(now_s + 39));
  EXPECT_FALSE(cold.likely(now_s + 40));
  now_s += 40;
  EXPECT_FALSE(cold.surely_warm(now_s));
  ColdFrames other = cold;
  Touch(kFastNs);
  EXPECT_TRUE(cold.surely_warm(now_s));
  other.NoteTouches(kSlowNs, 1, now_s);
  EXPECT_TRUE(other.likely(now_s));
  EXPECT_EQ(other.mean_ns(), 1'300'000u);
}

}  // namespace
}  // namespace strata
