// The paths that nearly every malloc and free takes: size class, one restartable sequence, done. No
// lock, no atomic read-modify-write, no call. Everything else is in slow_path.cpp. Sits in malloc.
// tests/golden holds the instruction counts; look at the disassembly after each change.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "cache/rseq_ops.h"
#include "malloc/runtime.h"
#include "span/size_classes.h"

namespace strata {

// Out of line: the first call of a thread, misses, large blocks, errors, other modes. These set
// ENOMEM. AllocateSlow's bytes are counted for the sampler already, or are not to be.
// `caller`: where the program's call returns to.
STRATA_NOINLINE void* AllocateCounted(size_t size, const void* caller);
// The same, when the bytes were taken from the thread's stretch, which did not hold them.
STRATA_NOINLINE void* AllocatePastStretch(size_t size, const void* caller);
STRATA_NOINLINE void* AllocateSlow(size_t size);
STRATA_NOINLINE void* AllocateSlowOf(size_t size, SizeClass c);  // kNone: a large block
STRATA_NOINLINE void FreeSlow(void* p);
STRATA_NOINLINE void FreeSmallSlow(void* p);
STRATA_NOINLINE void FreeSmallOther(void* p);  // what FreeDivided has not freed
// Reports and ends the program if the block at p is not one that (size, align) would have got.
void CheckSizedFree(void* p, size_t size, size_t align);

STRATA_ALWAYS_INLINE const RseqSlabs& SlabsOf(const Runtime& r) {
  return r.front().cpu.ops().where;
}

// Takes the bytes from the stretch; whether that used it up or it did not hold them.
STRATA_ALWAYS_INLINE bool SpendsStretch(ThreadState& t, size_t bytes) {
  return arch::TakeFrom(t.countdown.stretch, bytes);
}

STRATA_ALWAYS_INLINE void* Allocate(size_t size) {
  if (STRATA_UNLIKELY(size > size_classes_internal::kFineLimit) &&
      STRATA_UNLIKELY(size > kMaxClassSize))
    return AllocateCounted(size, __builtin_return_address(0));
  ThreadState& t = t_state;
  const size_t header = ClassBitsOfSize(size);
  // One compare finds the sample that is due and threads that must not use the slabs or place by
  // prediction: their stretch is 0. A signal handler that comes between the subtraction and
  // AllocatePastStretch, which takes it back, sees less than 0 and so goes there.
  if (STRATA_UNLIKELY(SpendsStretch(t, size)))
    return AllocatePastStretch(size, __builtin_return_address(0));
  void* p = RseqPopAt(SlabsOf(TheRuntime()), t.slabs, header);
  if (STRATA_UNLIKELY(p == nullptr)) return AllocateSlow(size);
  return p;
}

// For what is not to be counted, or is counted by the caller.
STRATA_ALWAYS_INLINE void* AllocateUncounted(size_t size) {
  void* slabs = t_state.slabs;
  if (STRATA_UNLIKELY(size > kMaxClassSize) || STRATA_UNLIKELY(slabs == nullptr))
    return AllocateSlow(size);
  void* p = RseqPopAt(SlabsOf(TheRuntime()), slabs, ClassBitsOfSize(size));
  if (STRATA_UNLIKELY(p == nullptr)) return AllocateSlow(size);
  return p;
}

// The same, of a class that was chosen for it.
STRATA_ALWAYS_INLINE void* AllocateOf(size_t size, SizeClass c) {
  void* slabs = t_state.slabs;
  void* p = STRATA_UNLIKELY(slabs == nullptr) ? nullptr : RseqPop(SlabsOf(TheRuntime()), slabs, c);
  if (STRATA_UNLIKELY(p == nullptr)) return AllocateSlowOf(size, c);
  return p;
}

STRATA_ALWAYS_INLINE void Free(void* p) {
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  // Before the start the end is 0, so everything is foreign.
  if (STRATA_UNLIKELY(arch::IsPastEnd(offset, r.kernel.atomic_mapped_end()))) return FreeSlow(p);
  void* slabs = t_state.slabs;
  if (STRATA_UNLIKELY(slabs == nullptr)) return FreeSmallSlow(p);
  // Class 0 (a large block) and pages with a sampled object never have room on a slab, so they need
  // no test here.
  RseqPush(SlabsOf(r), slabs, r.heap.page_map().entries(), offset >> kPageShift, p,
           [p](PushResult) { FreeSmallSlow(p); });
}

// What the caller says it asked for is of no use: the page map, which a free without a size reads,
// also says whether a sample may lie here, and reading it costs less than finding the class. A
// debug build checks the claim.
STRATA_ALWAYS_INLINE void FreeSized(void* p, [[maybe_unused]] size_t size) {
#ifndef NDEBUG
  CheckSizedFree(p, size, 1);
#endif
  Free(p);
}

STRATA_ALWAYS_INLINE void FreeSizedAligned(void* p, [[maybe_unused]] size_t size,
                                           [[maybe_unused]] size_t align) {
#ifndef NDEBUG
  CheckSizedFree(p, size, align);
#endif
  Free(p);
}

}  // namespace strata
