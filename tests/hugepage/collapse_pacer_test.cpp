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

TEST(CollapsePacer, NeitherFastNorSlowChangesNothing) {
  CollapsePacer p;
  p.Report(20'000'000);
  EXPECT_EQ(p.interval(), 1u);
  p.Report(31'000'000);
  EXPECT_EQ(p.interval(), 2u);
  p.Report(29'999'999);
  p.Report(15'000'000);
  EXPECT_EQ(p.interval(), 2u);
}

TEST(CollapsePacer, ItIsNeverLessThanATick) {
  CollapsePacer p;
  for (int i = 0; i < 3; ++i) p.Report(1);
  EXPECT_EQ(p.interval(), 1u);
  EXPECT_EQ(TicksUntilDue(p), 1);
}

// Also where a tick that was due had nothing to rebuild, and so reported nothing.
TEST(CollapsePacer, EveryWaitIsAsLong) {
  CollapsePacer p;
  p.Report(31'000'000);
  p.Report(31'000'000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(TicksUntilDue(p), 4) << i;
}

}  // namespace
}  // namespace strata
