// The checker of histories (history.h) on histories small enough to be judged by hand.
#include "history.h"

#include <gtest/gtest.h>

namespace crest {
namespace {

constexpr auto kGet = HistoryEvent::Kind::kGet;
constexpr auto kPut = HistoryEvent::Kind::kPut;
constexpr auto kRemove = HistoryEvent::Kind::kRemove;

TEST(History, OneThread) {
  EXPECT_TRUE(IsLinearizable({}));
  EXPECT_TRUE(IsLinearizable({{{1, 2, kGet, 0}, {3, 4, kPut, 7}, {5, 6, kGet, 7}}}));
  EXPECT_FALSE(IsLinearizable({{{1, 2, kPut, 7}, {3, 4, kGet, 0}}}));
  EXPECT_FALSE(IsLinearizable({{{1, 2, kPut, 7}, {3, 4, kPut, 8}, {5, 6, kGet, 7}}}));
  EXPECT_TRUE(IsLinearizable({{{1, 2, kPut, 7}, {3, 4, kRemove, 1}, {5, 6, kRemove, 0}}}));
  EXPECT_FALSE(IsLinearizable({{{1, 2, kPut, 7}, {3, 4, kRemove, 0}}}));
  EXPECT_FALSE(IsLinearizable({{{1, 2, kRemove, 1}}}));
}

TEST(History, AtTheSameTimeEitherOrderWillDo) {
  EXPECT_TRUE(IsLinearizable({{{1, 10, kPut, 7}}, {{2, 3, kGet, 7}, {4, 5, kGet, 7}}}));
  EXPECT_TRUE(IsLinearizable({{{1, 10, kPut, 7}}, {{2, 3, kGet, 0}, {4, 5, kGet, 7}}}));
  EXPECT_TRUE(IsLinearizable({{{1, 4, kPut, 7}}, {{2, 3, kPut, 8}}, {{5, 6, kGet, 7}}}));
  EXPECT_TRUE(IsLinearizable({{{1, 4, kPut, 7}}, {{2, 3, kPut, 8}}, {{5, 6, kGet, 8}}}));
}

TEST(History, WhatWasSeenCannotBeUnseen) {
  EXPECT_FALSE(IsLinearizable({{{1, 10, kPut, 7}}, {{2, 3, kGet, 7}, {4, 5, kGet, 0}}}));
  EXPECT_FALSE(
      IsLinearizable({{{1, 4, kPut, 7}}, {{2, 3, kPut, 8}}, {{5, 6, kGet, 7}, {7, 8, kGet, 8}}}));
  // Two threads that see two writes in different orders.
  EXPECT_FALSE(IsLinearizable({{{1, 20, kPut, 7}},
                               {{1, 20, kPut, 8}},
                               {{2, 3, kGet, 7}, {6, 7, kGet, 8}},
                               {{4, 5, kGet, 8}, {8, 9, kGet, 7}}}));
}

TEST(History, OnlyOneRemovesIt) {
  EXPECT_TRUE(IsLinearizable({{{1, 2, kPut, 7}, {3, 6, kRemove, 1}}, {{4, 5, kRemove, 0}}}));
  EXPECT_FALSE(IsLinearizable({{{1, 2, kPut, 7}, {3, 6, kRemove, 1}}, {{4, 5, kRemove, 1}}}));
}

TEST(History, OrderInTimeHoldsBetweenThreads) {
  EXPECT_FALSE(IsLinearizable({{{1, 2, kPut, 7}}, {{3, 4, kPut, 8}}, {{5, 6, kGet, 7}}}));
  EXPECT_FALSE(IsLinearizable({{{3, 4, kPut, 7}}, {{1, 2, kGet, 7}}}));
}

}  // namespace
}  // namespace crest
