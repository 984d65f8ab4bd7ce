// Drives the program of tests/hugepage/huge_region_program.h by the fuzzer's bytes.
#include "../hugepage/huge_region_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::HugeRegionProgram(strata::test::ProgramBytes(data, size)).Run();
  return 0;
}
