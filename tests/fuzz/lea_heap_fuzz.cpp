// Drives the program of tests/heaps/heap_program.h on Lea's heap by the fuzzer's bytes.
#include "../heaps/heap_program.h"
#include "heaps/lea.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::RunHeapProgram<strata::LeaCore>({data, size});
  return 0;
}
