// Random programs against CpuCache and a model. See cpu_cache_program.h.
#include "cpu_cache_program.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

// Others in the release build than under a sanitizer.
#ifdef STRATA_SANITIZED
constexpr uint64_t kFirst = 1;
#else
constexpr uint64_t kFirst = 71;
#endif
constexpr uint64_t kSeeds = 70;  // cpu_cache_fuzz tries more

TEST(CpuCacheProgram, RandomProgramsKeepAllInvariants) {
  size_t steps = 0, hits = 0, drained = 0, interrupts = 0, resizes = 0, capacity = 0;
  for (uint64_t seed = kFirst; seed < kFirst + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<uint8_t> bytes = RandomBytes(seed, 4'000);
    bytes[0] = static_cast<uint8_t>(seed);  // each limit in turn, ten times
    CpuCacheProgram program{ProgramBytes(bytes)};
    program.Run();
    steps += program.steps();
    hits += program.hits();
    interrupts += program.interrupts();
    resizes += program.resizes();
    capacity = std::max(capacity, program.most_capacity());
    drained += program.drained_bytes();
  }
  EXPECT_GT(steps, 5'000u);
  EXPECT_GT(hits, 10'000u);
  EXPECT_GT(interrupts, 500u);
  EXPECT_GT(resizes, 200u);
  EXPECT_GT(capacity, 1000u);
  EXPECT_GT(drained, size_t{10} << 20);
}

}  // namespace
}  // namespace strata::test
