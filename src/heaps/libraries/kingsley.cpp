// libstrata-kingsley.so: Kingsley's heap as the process's malloc. Sits at the top of heaps.
#include "heaps/kingsley.h"

#include "heaps/preload/front.h"

using Front = strata::preload::Front<strata::Kingsley>;
STRATA_PRELOAD_HEAP("kingsley")

#include "heaps/preload/c_exports.inc"
#include "heaps/preload/cxx_exports.inc"
