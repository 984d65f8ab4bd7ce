// Where allocation and free meet the sampler: the thread's countdown, and one function for each
// thing that can become of a sampled block. All keep errno. Sits in malloc.
#pragma once

#include <cstddef>

#include "malloc/allocation_site.h"
#include "malloc/runtime.h"
#include "profile/stack_walk.h"

namespace strata {

// Counts bytes against the calling thread's countdown; true: the block they belong to is due to be
// sampled. The instance is ready.
bool CountBytesSlow(size_t bytes);

STRATA_ALWAYS_INLINE bool CountBytes(size_t bytes) {
  size_t& stretch = t_state.countdown.stretch;
  if (STRATA_UNLIKELY(stretch <= bytes)) return CountBytesSlow(bytes);
  stretch -= bytes;
  return false;
}

// A live block becomes a sample, with the stack of the caller. No predictions are made for a place
// that is not known. `from`: where the caller is, if known. Returns the block, so that it can be a
// function's last call.
STRATA_NOINLINE void* SampleTaken(Runtime& r, void* p, size_t size, AllocationSite site = {},
                                  const WalkStart* from = nullptr);

// Somebody allocates `size` bytes at a place that was never seen before.
void PlaceMet(Runtime& r, size_t size, AllocationSite site);

// A block on a page with samples is about to be freed; it may be one of them.
STRATA_NOINLINE void SampleFreed(Runtime& r, void* p);

// A block was resized to `size`, and lies at `to` now; `from` is not freed yet. Growth is counted
// as if it were allocated, so a block of some size has the same chance to be a sample whether it
// was allocated so or grew. What was asked of a small block is not known: it counts as its class's
// size before and after, so that steps too small to leave the class are not lost. A large block
// counts as what was asked. A sample that shrinks keeps its weight.
void Resized(Runtime& r, void* from, void* to, size_t old_counted, size_t counted, size_t size);

}  // namespace strata
