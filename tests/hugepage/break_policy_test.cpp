// When a hugepage is worth breaking: a table, and that less is asked for the less it would cost.
#include "hugepage/break_policy.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(BreakPolicy, AsksForAQuarterWhileTheProgramWorks) {
  EXPECT_FALSE(IsWorthBreaking({true, 0, Program::kWorks, 0}));
  EXPECT_FALSE(IsWorthBreaking({true, 127, Program::kWorks, 0}));
  EXPECT_TRUE(IsWorthBreaking({true, 128, Program::kWorks, 0}));
  // Rest of long ago is no rest.
  EXPECT_FALSE(IsWorthBreaking({true, 127, Program::kWorks, 1'000'000}));
}

TEST(BreakPolicy, AsksForLessAtRest) {
  EXPECT_FALSE(IsWorthBreaking({true, 31, Program::kRests, 0}));
  EXPECT_TRUE(IsWorthBreaking({true, 32, Program::kRests, 0}));
  EXPECT_FALSE(IsWorthBreaking({true, 16, Program::kRests, 119}));
  EXPECT_TRUE(IsWorthBreaking({true, 16, Program::kRests, 120}));
  EXPECT_FALSE(IsWorthBreaking({true, 15, Program::kRests, 1'000'000}));
}

TEST(BreakPolicy, TakesAllOfABrokenOneAndAllWhenMemoryIsShort) {
  EXPECT_FALSE(IsWorthBreaking({false, 15, Program::kWorks, 0}));
  EXPECT_TRUE(IsWorthBreaking({false, 16, Program::kWorks, 0}));
  for (Program p : {Program::kRests, Program::kIsShort})
    EXPECT_TRUE(IsWorthBreaking({false, 1, p, 0}));
  EXPECT_TRUE(IsWorthBreaking({true, 1, Program::kIsShort, 0}));
}

}  // namespace
}  // namespace strata
