// Drives the program of tests/layers/reap_program.h, by the fuzzer's bytes, on a reap over a source
// that knows its blocks, as the process heap does.
#include "../layers/reap_program.h"
#include "strata/layers/combine/reap.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::layers::KnowingMmap;
  using strata::layers::Reap;
  strata::test::ReapProgram<strata::layers::Stack<Reap<8192, 16384>, KnowingMmap>>({data, size})
      .Run();
  return 0;
}
