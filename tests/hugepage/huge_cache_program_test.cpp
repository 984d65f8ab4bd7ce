// Random programs against HugeCache and a model. See huge_cache_program.h.
#include "huge_cache_program.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

TEST(HugeCacheProgram, RandomProgramsKeepAllInvariants) {
  size_t steps = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<uint8_t> bytes = RandomBytes(seed, 8'000);
    HugeCacheProgram program{ProgramBytes(bytes)};
    program.Run();
    steps += program.steps();
  }
  EXPECT_GT(steps, 40'000u);
}

}  // namespace
}  // namespace strata::test
