// Drives, by the fuzzer's bytes, the program of tests/heaps/heap_program.h on the process-wide reap
// and that of tests/layers/reap_program.h on a reap over a source that knows its blocks, as the
// process heap does.
#include "../heaps/heap_program.h"
#include "../layers/reap_program.h"
#include "heaps/reap.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::layers::KnowingMmap;
  using strata::layers::Reap;
  strata::test::RunHeapProgram<strata::ReapCore>({data, size});
  strata::test::ReapProgram<strata::layers::Stack<Reap<(8 << 10), (128 << 10)>, KnowingMmap>>(
      {data, size})
      .Run();
  strata::test::ReapProgram<strata::layers::Stack<Reap<8192, 16384>, KnowingMmap>>({data, size})
      .Run();
  return 0;
}
