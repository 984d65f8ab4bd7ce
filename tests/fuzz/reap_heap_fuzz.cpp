// Drives the program of tests/heaps/heap_program.h on the process-wide reap by the fuzzer's bytes.
#include "../heaps/heap_program.h"
#include "heaps/reap.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::RunHeapProgram<strata::ReapCore>({data, size});
  return 0;
}
