// Push and pop on the current vCPU's slab as restartable sequences: the kernel sends a thread that
// is preempted, migrated or signalled between the start and the committing store to the abort
// label, so no lock and no atomic instruction is needed. One file an architecture has them, as
// RseqPopAt, RseqPush, RseqPopBatch, RseqPushBatch and RseqIsOn. Sits in cache.
#pragma once

#if defined(__x86_64__)
#include "cache/rseq_sequences_x86_64.h"
#elif defined(__aarch64__)
#include "cache/rseq_sequences_aarch64.h"
#else
#error "There are no restartable sequences for this architecture"
#endif

namespace strata {

// The newest object of the class on this vCPU, or null when there is none. RseqPopAt: of the class
// whose header lies there in each slab, which is its ClassBits. The object that is now on top is
// not prefetched, as in TCMalloc: bench's tight, batch and replace gained nothing by it.
STRATA_ALWAYS_INLINE void* RseqPop(const RseqSlabs& r, void* slabs, SizeClass c) {
  static_assert(sizeof(SlabHeader) == size_t{1} << kClassBitsShift);
  return RseqPopAt(r, slabs, ClassBits(c));
}

}  // namespace strata
