// Drives the program of tests/heaps/heap_program.h on Hoard's heap by the fuzzer's bytes.
#include "../heaps/heap_program.h"
#include "../heaps/hoard_core.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::RunHeapProgram<strata::test::HoardCore>({data, size});
  return 0;
}
