// Random programs against PageHeap and a model. See page_heap_program.h.
#include "page_heap_program.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

TEST(PageHeapProgram, RandomProgramsKeepAllInvariants) {
  size_t steps = 0, interrupts = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<uint8_t> bytes = RandomBytes(seed, 12'000);
    PageHeapProgram program{ProgramBytes(bytes)};
    program.Run();
    steps += program.steps();
    interrupts += program.interrupts();
  }
  EXPECT_GT(steps, 20'000u);
  EXPECT_GT(interrupts, 500u);  // the programs did run into releases
}

}  // namespace
}  // namespace strata::test
