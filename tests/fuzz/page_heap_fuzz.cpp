// Drives the program of tests/hugepage/page_heap_program.h by the fuzzer's bytes.
#include "../hugepage/page_heap_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::PageHeapProgram(strata::test::ProgramBytes(data, size)).Run();
  return 0;
}
