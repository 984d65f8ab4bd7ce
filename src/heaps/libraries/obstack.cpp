// libstrata-obstack.so: An obstack as the process's malloc. Sits at the top of heaps.
#include "heaps/obstack.h"

#include "heaps/preload/front.h"

using Front = strata::preload::Front<strata::ObstackHeap>;
STRATA_PRELOAD_HEAP("obstack")

#include "heaps/preload/c_exports.inc"
#include "heaps/preload/cxx_exports.inc"
