// Drives the program of tests/span/central_free_list_program.h by the fuzzer's bytes.
#include "../span/central_free_list_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::CentralProgram(strata::test::ProgramBytes(data, size)).Run();
  return 0;
}
