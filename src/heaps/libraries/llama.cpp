// libstrata-llama.so: LLAMA as the process's malloc, which learns lifetimes from its own frees.
// Sits at the top of heaps.
#include "heaps/llama.h"

#include "heaps/preload/front.h"

using Front = strata::preload::Front<strata::LlamaHeap>;
STRATA_PRELOAD_HEAP("llama")

#include "heaps/preload/c_exports.inc"
#include "heaps/preload/cxx_exports.inc"
