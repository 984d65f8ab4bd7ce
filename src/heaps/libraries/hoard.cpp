// libstrata-hoard.so: Hoard as the process's malloc. Sits at the top of heaps.
#include "heaps/hoard.h"

#include "heaps/preload/front.h"

using Front = strata::preload::Front<strata::HoardHeap>;
STRATA_PRELOAD_HEAP("hoard")

#include "heaps/preload/c_exports.inc"
#include "heaps/preload/cxx_exports.inc"
