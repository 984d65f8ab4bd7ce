// A reap as the heap of a whole process, as a composition: a region until the first free, and from
// then on a heap that bumps through the holes that frees have left. Chunks and large blocks are
// mappings, which go back when they are empty. docs/heaps.md says when to use it. Sits in heaps.
#pragma once

#include "strata/layers/combine/only_live.h"
#include "strata/layers/combine/reap.h"
#include "strata/layers/combine/tree_fit.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/thread/locked_when_shared.h"

namespace strata {

// Without its lock, for one thread. The finder is for many free blocks, of which a process has more
// than a request.
using ReapCore =
    layers::Stack<layers::OnlyLive, layers::Reap<64 << 10, 1 << 20, layers::TreeFit>, layers::Mmap>;

using ReapHeap = layers::LockedWhenShared::On<ReapCore>;

}  // namespace strata
