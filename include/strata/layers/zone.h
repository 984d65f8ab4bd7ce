// Zone: a region. Blocks are bumped out of chunks of the heap below and go back together, by
// clear() or with the zone; to give one back alone does nothing. Nested adds parents, Reap adds
// individual frees. (Bump is the layer; Zone is the name of the idiom, with its own default chunk.)
#pragma once

#include "strata/layers/bump.h"

namespace strata::layers {

using Zone = Bump<8 << 10>;

}  // namespace strata::layers
