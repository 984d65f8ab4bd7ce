// Random programs on LLAMA's heap against a model (lifetime_program.h).
#include "lifetime_program.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(LifetimeProgram, KeepsToTheModel) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const std::vector<uint8_t> bytes = test::RandomBytes(seed, 20'000);
    test::LifetimeProgram(test::ProgramBytes(bytes)).Run();
  }
}

}  // namespace
}  // namespace strata
