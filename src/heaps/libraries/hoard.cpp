// libstrata-hoard.so: Hoard as the process's malloc. Sits at the top of heaps.
#include "heaps/hoard.h"

#define STRATA_HEAP strata::HoardHeap
#define STRATA_HEAP_NAME "hoard"
#include "strata/as_malloc.h"
