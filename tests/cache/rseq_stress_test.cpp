// The restartable sequences under forced migration, signals, concurrent drains and
// resizes: no object is
// lost and none has two owners. That this would be noticed is shown by
// rseq_control_stress_test.cpp.
#include "rseq_stress.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace strata::test {
namespace {

void Stress(RseqIndex index) {
  const RseqInfo info = RseqIndexedBy(index);
  if (info.index == RseqIndex::kNone) GTEST_SKIP() << "this kernel or glibc does not have it";
  // An emulated machine (tests/targets) gets more time, and still does little in it.
  const char* slow_ms = getenv("STRATA_STRESS_MS");
  const int ms = slow_ms != nullptr ? atoi(slow_ms) : 2500;
  const StressResult result = RseqStress(info).Run(std::chrono::milliseconds(ms));
  EXPECT_EQ(result.violations, 0u);
  if (slow_ms != nullptr) {
    EXPECT_GT(result.moves, 500u);
    EXPECT_GT(result.signal_moves, 20u);
    return;
  }
  // It did happen: traffic, handlers in its midst, drains of full slabs.
  EXPECT_GT(result.moves, 50'000u);
  EXPECT_GT(result.hits, 10'000u);
  EXPECT_GT(result.signal_moves, 200u);
  EXPECT_GT(result.drains, 50u);
  EXPECT_GT(result.resizes, 200u);
}

TEST(RseqStress, ByMmCid) { Stress(RseqIndex::kMmCid); }
TEST(RseqStress, ByCpuId) { Stress(RseqIndex::kCpuId); }

}  // namespace
}  // namespace strata::test
