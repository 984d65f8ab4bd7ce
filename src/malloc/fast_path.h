// The paths that nearly every malloc and free takes: size class, one restartable sequence, done. No
// lock, no atomic read-modify-write, no call. Everything else is in slow_path.cpp. Sits in malloc.
// tests/golden holds the instruction counts; look at the disassembly after each change.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/rseq_ops.h"
#include "malloc/runtime.h"
#include "span/size_classes.h"

namespace strata {

// Out of line: the first call of a thread, misses, large blocks, errors, other modes. These set
// ENOMEM.
STRATA_NOINLINE void* AllocateSlow(size_t size);
STRATA_NOINLINE void FreeSlow(void* p);
STRATA_NOINLINE void FreeSmallSlow(void* p, SizeClass c);
// Reports and ends the program if the block at p is not one that (size, align) would have got.
void CheckSizedFree(void* p, size_t size, size_t align);

STRATA_ALWAYS_INLINE const RseqSlabs& SlabsOf(const Runtime& r) { return r.cpu.ops().where; }

STRATA_ALWAYS_INLINE void* Allocate(size_t size) {
  void* slabs = t_state.slabs;
  if (STRATA_UNLIKELY(size > kMaxClassSize) || STRATA_UNLIKELY(slabs == nullptr))
    return AllocateSlow(size);
  void* p = RseqPop(SlabsOf(TheRuntime()), slabs, ClassOfSize(size));
  if (STRATA_UNLIKELY(p == nullptr)) return AllocateSlow(size);
  return p;
}

STRATA_ALWAYS_INLINE void FreeSmall(void* p, SizeClass c) {
  void* slabs = t_state.slabs;
  if (STRATA_UNLIKELY(slabs == nullptr)) return FreeSmallSlow(p, c);
  if (STRATA_UNLIKELY(RseqPush(SlabsOf(TheRuntime()), slabs, c, p) != PushResult::kPushed))
    FreeSmallSlow(p, c);
}

STRATA_ALWAYS_INLINE void Free(void* p) {
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  // Before the start the end is 0, so everything is foreign.
  if (STRATA_UNLIKELY(offset >= r.kernel.mapped_end())) return FreeSlow(p);
  // Class 0 (a large block) never has room on a slab, so it needs no test here.
  FreeSmall(p, static_cast<SizeClass>(r.kernel.classes()[offset >> kPageShift]));
}

// The caller says what it asked for, so the class needs no look-up. A debug build checks the claim.
STRATA_ALWAYS_INLINE void FreeSized(void* p, size_t size) {
#ifdef NDEBUG
  if (STRATA_UNLIKELY(size > kMaxClassSize) || STRATA_UNLIKELY(p == nullptr)) return Free(p);
  FreeSmall(p, ClassOfSize(size));
#else
  CheckSizedFree(p, size, 1);
  Free(p);
#endif
}

STRATA_ALWAYS_INLINE void FreeSizedAligned(void* p, [[maybe_unused]] size_t size,
                                           [[maybe_unused]] size_t align) {
#ifndef NDEBUG
  CheckSizedFree(p, size, align);
#endif
  Free(p);
}

}  // namespace strata
