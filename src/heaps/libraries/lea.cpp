// libstrata-lea.so: Lea's heap as the process's malloc. Sits at the top of heaps.
#include "heaps/lea.h"

#define STRATA_HEAP strata::Lea
#define STRATA_HEAP_NAME "lea"
#include "strata/as_malloc.h"
