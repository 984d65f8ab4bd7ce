// DropOwnVariables takes out Strata's variables, wherever they lie, and keeps the others' order.
#include "base/own_variables.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata {
namespace {

std::vector<std::string> LeftOf(std::vector<const char*> given) {
  std::vector<char*> environment;
  for (const char* each : given) environment.push_back(const_cast<char*>(each));
  environment.push_back(nullptr);
  DropOwnVariables(environment.data());
  std::vector<std::string> left;
  for (char** at = environment.data(); *at != nullptr; ++at) left.push_back(*at);
  return left;
}

TEST(OwnVariables, AreDroppedAndNoOthers) {
  using List = std::vector<std::string>;
  EXPECT_EQ(LeftOf({}), List());
  EXPECT_EQ(LeftOf({"STRATA_STATS=/x"}), List());
  EXPECT_EQ(LeftOf({"STRATA_A=1", "PATH=/bin", "STRATATRACE_FILE=/x", "STRATA_B", "XSTRATA_C=1",
                    "STRATA=1", "strata_d=1", "STRATA_A=1"}),
            List({"PATH=/bin", "XSTRATA_C=1", "STRATA=1", "strata_d=1"}));
  DropOwnVariables(nullptr);
}

}  // namespace
}  // namespace strata
