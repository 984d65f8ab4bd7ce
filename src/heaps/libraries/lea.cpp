// libstrata-lea.so: Lea's heap as the process's malloc. Sits at the top of heaps.
#include "heaps/lea.h"

#include "heaps/preload/front.h"

using Front = strata::preload::Front<strata::Lea>;
STRATA_PRELOAD_HEAP("lea")

#include "heaps/preload/c_exports.inc"
#include "heaps/preload/cxx_exports.inc"
