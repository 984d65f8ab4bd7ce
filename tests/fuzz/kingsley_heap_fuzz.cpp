// Drives the program of tests/heaps/heap_program.h on Kingsley's heap by the fuzzer's bytes.
#include "../heaps/heap_program.h"
#include "heaps/kingsley.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::test::ProgramBytes;
  strata::layers::Check::On<strata::KingsleyCore> heap;
  strata::test::HeapProgram<strata::KingsleyCore>(heap, ProgramBytes(data, size)).Run();
  return 0;
}
