// The allocations that are not counted on the fast path, by the place that allocates: what is
// predicted of it says which class serves them; some are sampled, and some get a guard. Beside
// slow_path.cpp, which serves them.
#include "base/arch.h"
#include "malloc/allocation_site.h"
#include "malloc/checked.h"
#include "malloc/fast_path.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/per_thread_path.h"
#include "malloc/predicted_path.h"
#include "malloc/region_calls.h"
#include "malloc/runtime.h"
#include "malloc/sampling.h"
#include "malloc/slow_path.h"
#include "malloc/stretch_end.h"
#include "profile/unwind/walk_step.h"

namespace strata {
namespace {

// What starts a walk is made in the last function called, so that no stack holds it while the heap
// is asked.
STRATA_NOINLINE void* SampleAt(AllocationSite site, void* p, size_t size) {
  const WalkStart from = StartAtCall();
  return SampleTaken(TheRuntime(), p, size, site, &from);
}
// Of bytes that are counted.
STRATA_NOINLINE void* GuardAt(AllocationSite site, size_t size, SizeClass c, bool sampled) {
  const WalkStart from = StartAtCall();
  void* p = guard_internal::GuardNow(TheRuntime(), size, 1, &from);
  if (p == nullptr) p = AllocateSlowOf(size, c);
  return !sampled || p == nullptr ? p : SampleTaken(TheRuntime(), p, size, site, &from);
}

// Of the class, or a large block; counts.
STRATA_NOINLINE void* AllocateAt(AllocationSite site, size_t size, SizeClass c) {
  if (Checks()) return AllocateChecked(size, 1);
  const StandsFor what = WhatItStandsFor();
  const bool sampled = CountBytesSlow(size);
  if (IsLasting(c) && IsToBeAskedAgain(c)) PlaceMet(TheRuntime(), size, site);
  if (STRATA_UNLIKELY(IsGuardsTurn(size, what))) return GuardAt(site, size, c, sampled);
  void* p = AllocateSlowOf(size, c);
  return STRATA_LIKELY(!sampled || p == nullptr) ? p : SampleAt(site, p, size);
}

// For a place whose callers differ, which `found` says.
STRATA_NOINLINE void* AllocateByCallers(AllocationSite site, size_t size, Prediction found) {
  const SizeClass c = ClassByCallers(site, ClassOfSize(size), found);
  if (void* p = GuardsSeeAll() ? nullptr : PopOf(c, size)) return p;
  return AllocateAt(site, size, c);
}

STRATA_NOINLINE void* AllocateUnpredicted(AllocationSite site, size_t size) {
  if (STRATA_UNLIKELY(Contexts() != 0)) return AllocateInContext(site, size);
  if (void* p = GuardsSeeAll() ? nullptr : PopPerThread(size)) return p;
  if (STRATA_UNLIKELY(EnsureStarted() != RunState::kReady)) return AllocateSlow(size);
  if (InScope()) return AllocateInScope(size);
  return AllocateAt(site, size, size > kMaxClassSize ? SizeClass::kNone : ClassOfSize(size));
}

// Met first: what allocates is the last call.
STRATA_NOINLINE void* AllocateAtNewPlace(AllocationSite site, size_t size) {
  if (MeetPlace(site.KeyOf(ClassOfSize(size)))) PlaceMet(TheRuntime(), size, site);
  return AllocateUnpredicted(site, size);
}

STRATA_NOINLINE void* AllocateLasting(AllocationSite site, size_t size) {
  return AllocateAt(site, size, LastingClass(ClassOfSize(size)));
}

// Of a thread with slabs and without a scope, while places are predicted plainly: most calls end
// here then.
STRATA_NOINLINE void* AllocatePredicted(AllocationSite site, size_t size) {
  const SizeClass c = ClassOfSize(size);
  const Prediction found = PredictionFor(site.KeyOf(c));
  if (STRATA_UNLIKELY(found.kind() == Prediction::kDeeper))
    return AllocateByCallers(site, size, found);
  const bool lasts = found.kind() == Prediction::kLasts;
  void* p = PopOf(lasts ? LastingClass(c) : c, size);
  if (STRATA_LIKELY(p != nullptr)) return p;
  return lasts ? AllocateLasting(site, size) : AllocateUnpredicted(site, size);
}

STRATA_NOINLINE void* AllocateByPlace(AllocationSite site, size_t size) {
  if (!Predicts() || size > kMaxClassSize || t_state.scope != nullptr)
    return AllocateUnpredicted(site, size);
  const SizeClass c = ClassOfSize(size);
  const SiteKey key = site.KeyOf(c);
  const Prediction found = PredictionFor(key);
  if (STRATA_UNLIKELY(found.kind() == Prediction::kDeeper))
    return AllocateByCallers(site, size, found);
  const bool lasts = found.kind() == Prediction::kLasts;
  if (!lasts && STRATA_UNLIKELY(IsNewPlace(key))) return AllocateAtNewPlace(site, size);
  void* p = GuardsSeeAll() ? nullptr : PopOf(lasts ? LastingClass(c) : c, size);
  if (STRATA_LIKELY(p != nullptr)) return p;
  return lasts ? AllocateLasting(site, size) : AllocateUnpredicted(site, size);
}

// A thread with a cache of its own, as a rule.
STRATA_NOINLINE void* AllocateWithoutSlabs(AllocationSite site, size_t size) {
  t_state.countdown.stretch = 0;
  if (size > kMaxClassSize) __builtin_unreachable();  // spares a test below
  if (!Predicts() && Contexts() == 0) {
    if (void* p = PopPerThread(size)) return p;
  }
  return AllocateByPlace(site, size);
}

}  // namespace

void* AllocateCounted(size_t size, const void* caller) {
  return AllocateByPlace({caller, arch::StackPointer()}, size);
}

// All sites are of this function's place on the stack, which it takes from what leads here: that
// saves no register. Large blocks, which have no place, come by AllocateCounted.
void* AllocatePastStretch(size_t size, const void* caller) {
  const AllocationSite site(caller, arch::StackPointer());
  ThreadState& t = t_state;
  if (STRATA_UNLIKELY(t.slabs == nullptr)) return AllocateWithoutSlabs(site, size);
  // A signal handler that ended the stretch for a scope must not be undone.
  const size_t stretch = t.scope != nullptr ? 0 : t.countdown.stretch + size;
  t.countdown.stretch = stretch;
  // In a handler whose thread was about to come here itself: what that adds back is not counted.
  if (STRATA_UNLIKELY(static_cast<ptrdiff_t>(stretch) < 0)) return AllocateSlow(size);
  if (HowPredicted() == Predicting::kPlainly && t.scope == nullptr)
    return AllocatePredicted(site, size);
  if (OnlyCounts(t, size)) {
    const SizeClass c = ClassOfSize(size);
    if (STRATA_UNLIKELY(IsGuardsTurn(size, StandsFor::kStretch)))
      return GuardAt(site, size, c, false);
    void* p = RseqPop(SlabsOf(TheRuntime()), t.slabs, c);
    if (STRATA_UNLIKELY(p == nullptr)) return AllocateSlow(size);
    NoteRequested(TheRuntime(), c, size);
    return p;
  }
  return AllocateByPlace(site, size);
}

}  // namespace strata
