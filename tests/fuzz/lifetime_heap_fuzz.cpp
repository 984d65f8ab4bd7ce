// Drives the program of tests/lifetime/lifetime_program.h by the fuzzer's bytes.
#include "../lifetime/lifetime_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::LifetimeProgram(strata::test::ProgramBytes(data, size)).Run();
  return 0;
}
