// libstrata-reap.so: A reap as the process's malloc. Sits at the top of heaps.
#include "heaps/reap.h"

#define STRATA_HEAP strata::ReapHeap
#define STRATA_HEAP_NAME "reap"
#include "strata/as_malloc.h"
