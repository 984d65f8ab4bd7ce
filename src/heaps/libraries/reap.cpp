// libstrata-reap.so: A reap as the process's malloc. Sits at the top of heaps.
#include "heaps/reap.h"

#include "heaps/preload/front.h"

using Front = strata::preload::Front<strata::ReapHeap>;
STRATA_PRELOAD_HEAP("reap")

#include "heaps/preload/c_exports.inc"
#include "heaps/preload/cxx_exports.inc"
