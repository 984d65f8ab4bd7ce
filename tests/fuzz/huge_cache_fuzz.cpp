// Drives the program of tests/hugepage/huge_cache_program.h by the fuzzer's bytes.
#include "../hugepage/huge_cache_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::HugeCacheProgram(strata::test::ProgramBytes(data, size)).Run();
  return 0;
}
