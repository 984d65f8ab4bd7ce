// libstrata-kingsley.so: Kingsley's heap as the process's malloc. Sits at the top of heaps.
#include "heaps/kingsley.h"

#define STRATA_HEAP strata::Kingsley
#define STRATA_HEAP_NAME "kingsley"
#include "strata/as_malloc.h"
