// When a hugepage is worth breaking: a table, and that less is asked for the less it would cost.
#include "hugepage/break_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace strata {
namespace {

constexpr uint32_t kYears = 100'000'000;

TEST(BreakPolicy, AsksForAQuarterWhileTheProgramWorks) {
  EXPECT_FALSE(IsWorthBreaking({true, 0, Program::kWorks, 5}));
  EXPECT_FALSE(IsWorthBreaking({true, 127, Program::kWorks, 5}));
  EXPECT_TRUE(IsWorthBreaking({true, 128, Program::kWorks, 5}));
  EXPECT_FALSE(IsWorthBreaking({true, 127, Program::kWorks, kYears}));
}

TEST(BreakPolicy, AsksForLessAtRest) {
  EXPECT_FALSE(IsWorthBreaking({true, 31, Program::kRests, 1}));
  EXPECT_TRUE(IsWorthBreaking({true, 32, Program::kRests, 1}));
  EXPECT_FALSE(IsWorthBreaking({true, 16, Program::kRests, 119}));
  EXPECT_TRUE(IsWorthBreaking({true, 16, Program::kRests, 120}));
  EXPECT_FALSE(IsWorthBreaking({true, 15, Program::kRests, kYears}));
}

TEST(BreakPolicy, AsksForMoreOfOneThatWasRefilledAMomentAgo) {
  EXPECT_FALSE(IsWorthBreaking({true, 255, Program::kWorks, 4}));
  EXPECT_FALSE(IsWorthBreaking({true, 255, Program::kWorks, 1}));
  EXPECT_TRUE(IsWorthBreaking({true, 256, Program::kWorks, 1}));
  EXPECT_FALSE(IsWorthBreaking({true, 383, Program::kWorks, 0}));
  EXPECT_TRUE(IsWorthBreaking({true, 384, Program::kWorks, 0}));
  EXPECT_FALSE(IsWorthBreaking({true, 255, Program::kRests, 0}));
  EXPECT_TRUE(IsWorthBreaking({true, 256, Program::kRests, 0}));
  EXPECT_FALSE(IsWorthBreaking({false, 31, Program::kWorks, 4}));
  EXPECT_TRUE(IsWorthBreaking({false, 32, Program::kWorks, 1}));
  EXPECT_FALSE(IsWorthBreaking({false, 47, Program::kWorks, 0}));
  EXPECT_TRUE(IsWorthBreaking({false, 48, Program::kWorks, 0}));
}

TEST(BreakPolicy, TakesAllOfABrokenOneAndAllWhenMemoryIsShort) {
  EXPECT_FALSE(IsWorthBreaking({false, 15, Program::kWorks, 5}));
  EXPECT_TRUE(IsWorthBreaking({false, 16, Program::kWorks, 5}));
  for (Program p : {Program::kRests, Program::kIsShort})
    EXPECT_TRUE(IsWorthBreaking({false, 1, p, 0}));
  EXPECT_TRUE(IsWorthBreaking({true, 1, Program::kIsShort, 0}));
}

// More that goes, a longer stand, less work, one that is broken already: none makes it worth less.
TEST(BreakPolicy, NothingThatSpeaksForItSpeaksAgainst) {
  constexpr Program kByNeed[]{Program::kWorks, Program::kRests, Program::kIsShort};
  for (size_t p = 0; p < 3; ++p) {
    for (size_t gain = 0; gain < kNativePerHugePage; ++gain) {
      for (uint32_t stood = 0; stood < 130; ++stood) {
        if (!IsWorthBreaking({true, gain, kByNeed[p], stood})) continue;
        EXPECT_TRUE(IsWorthBreaking({true, gain + 1, kByNeed[p], stood}));
        EXPECT_TRUE(IsWorthBreaking({true, gain, kByNeed[p], stood + 1}));
        EXPECT_TRUE(IsWorthBreaking({true, gain, kByNeed[std::min<size_t>(p + 1, 2)], stood}));
        EXPECT_TRUE(IsWorthBreaking({false, gain, kByNeed[p], stood}));
      }
    }
  }
}

}  // namespace
}  // namespace strata
