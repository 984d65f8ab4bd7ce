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

// Of an object it knows the class only: those of large classes begin anywhere in their page.
TEST(RseqOps, PushesAnObjectOfAnyClass) {
  const RseqInfo info = RseqIndexedBy(RseqIndex::kCpuId);
  if (info.index == RseqIndex::kNone) GTEST_SKIP() << "this kernel or glibc does not have it";
  const size_t cpus = PossibleCpus();
  void* const slabs = mmap(nullptr, cpus << kSlabShift, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(slabs, MAP_FAILED);
  const RseqOps ops{{info.area_offset, info.index_offset, MarkOf(0x5eed)}, slabs, info};
  alignas(kPageSize) static char page[kPageSize];
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    for (size_t cpu = 0; cpu < cpus; ++cpu) {
      Slab& slab = *reinterpret_cast<Slab*>(static_cast<char*>(slabs) + (cpu << kSlabShift));
      slab.Make(c);
      slab.Open(c, 1);
    }
    EXPECT_EQ(ops.Push(c, page + LastFirst(InfoOf(c))), PushResult::kPushed) << InfoOf(c).size;
  }
  munmap(slabs, cpus << kSlabShift);
}

TEST(RseqStress, ByMmCid) { Stress(RseqIndex::kMmCid); }
TEST(RseqStress, ByCpuId) { Stress(RseqIndex::kCpuId); }

}  // namespace
}  // namespace strata::test
