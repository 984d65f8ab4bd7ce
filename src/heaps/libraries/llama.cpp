// libstrata-llama.so: LLAMA as the process's malloc, which learns lifetimes from its own frees.
// Sits at the top of heaps.
#include "heaps/llama.h"

#define STRATA_HEAP strata::LlamaHeap
#define STRATA_HEAP_NAME "llama"
#include "strata/as_malloc.h"
