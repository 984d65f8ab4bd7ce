// libstrata-obstack.so: An obstack as the process's malloc. Sits at the top of heaps.
#include "heaps/obstack.h"

#define STRATA_HEAP strata::ObstackHeap
#define STRATA_HEAP_NAME "obstack"
#include "strata/as_malloc.h"
