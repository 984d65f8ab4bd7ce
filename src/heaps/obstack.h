// An obstack as the heap of a whole process, as a composition: a stack of blocks, of which the
// newest goes back at once and others when all above them are gone; large blocks in mappings of
// their own. For short programs whose lifetimes nest; docs/heaps.md says what others get. Sits in
// heaps.
#pragma once

#include "strata/layers/combine/apart.h"
#include "strata/layers/combine/deferred_pop.h"
#include "strata/layers/combine/fixed.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/combine/obstack.h"
#include "strata/layers/combine/split.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/thread/locked_when_shared.h"

namespace strata {

inline constexpr size_t kObstackChunk = 256 << 10;
inline constexpr size_t kObstackLimit = kObstackChunk / 2;

// Without its lock, for one thread. The limit stays where it is: what comes and goes above it would
// otherwise come from the stack, to which it may never return. Some empty chunks wait for reuse, so
// that a stack that moves about a chunk's end costs no system call each time.
using ObstackCore = layers::Stack<
    layers::Apart<kObstackLimit, layers::Mmap, kObstackLimit>, layers::DeferredPop,
    layers::Obstack<kObstackChunk>,
    layers::SplitAt<kObstackChunk, layers::Fixed<kObstackChunk>, layers::BoundedFreeList<4>>,
    layers::Mmap>;

using ObstackHeap = layers::LockedWhenShared::On<ObstackCore>;

}  // namespace strata
