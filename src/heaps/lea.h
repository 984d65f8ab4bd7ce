// Lea's malloc (dlmalloc 2.7), as a composition: blocks with boundary tags that join free
// neighbours and are picked by best fit, small ones kept for reuse before they join, the end of the
// segment used last, large blocks in mappings of their own. docs/heaps.md says where it differs
// from the original. Sits in heaps.
#pragma once

#include "strata/layers/combine/apart.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/source/sbrk.h"
#include "strata/layers/thread/locked_when_shared.h"

namespace strata {

// Without its lock, for one thread.
using LeaCore = layers::Stack<layers::Bins<layers::TaggedSteps<520>, layers::BoundedFreeList<32>>,
                              layers::Apart<128 << 10, layers::Mmap>, layers::Coalesce<128 << 10>,
                              layers::Sbrk>;

using Lea = layers::LockedWhenShared::On<LeaCore>;

}  // namespace strata
