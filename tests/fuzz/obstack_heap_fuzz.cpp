// Drives the program of tests/heaps/heap_program.h on the process-wide obstack by the fuzzer's
// bytes.
#include "../heaps/heap_program.h"
#include "heaps/obstack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::test::RunHeapProgram<strata::ObstackCore>({data, size});
  return 0;
}
