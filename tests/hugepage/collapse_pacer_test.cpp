// CollapsePacer backs off while the kernel is slow, and comes back.
#include "hugepage/collapse_pacer.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

int TicksUntilDue(CollapsePacer& p) {
  int n = 1;
  while (!p.Due()) ++n;
  return n;
}

TEST(CollapsePacer, DoublesToTheLimitAndHalves) {
  CollapsePacer p;
  EXPECT_EQ(TicksUntilDue(p), 1);
  for (int i = 1; i <= 10; ++i) p.Report(31'000'000);
  EXPECT_EQ(p.interval(), 128u);
  EXPECT_EQ(TicksUntilDue(p), 128);
  p.Report(20'000'000);  // neither slow nor fast
  EXPECT_EQ(p.interval(), 128u);
  for (int i = 0; i < 7; ++i) p.Report(1'000'000);
  EXPECT_EQ(p.interval(), 1u);
  EXPECT_EQ(TicksUntilDue(p), 1);
}

}  // namespace
}  // namespace strata
