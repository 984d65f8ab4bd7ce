// Random programs against CentralFreeList and a model. See central_free_list_program.h.
#include "central_free_list_program.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

TEST(CentralFreeListProgram, RandomProgramsKeepAllInvariants) {
  size_t steps = 0, interrupts = 0, released = 0, bad = 0;
  for (uint64_t seed = 1; seed <= 42; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<uint8_t> bytes = RandomBytes(seed, 8'000);
    bytes[0] = static_cast<uint8_t>(seed);  // each class twice
    CentralProgram program{ProgramBytes(bytes)};
    program.Run();
    steps += program.steps();
    interrupts += program.interrupts();
    released += program.pages_released();
    bad += program.bad_frees();
  }
  // The programs did reach what they are for.
  EXPECT_GT(steps, 5'000u);
  EXPECT_GT(interrupts, 100u);
  EXPECT_GT(released, 1'000u);
  EXPECT_GT(bad, 100u);
}

}  // namespace
}  // namespace strata::test
