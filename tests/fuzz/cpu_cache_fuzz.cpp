// Drives the program of tests/cache/cpu_cache_program.h by the fuzzer's bytes.
#include "../cache/cpu_cache_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::CpuCacheProgram(strata::test::ProgramBytes(data, size)).Run();
  return 0;
}
