// What malloc is while something is predicted of the places that allocate: the look-up of the
// caller in the table, and a pop of the class that it says. Threads come here because their
// stretches end (sampling.cpp), so that a process without predictions pays nothing. Sits in malloc,
// between fast_path.h and slow_path.cpp; lifetimes.h fills the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lifetime/prediction_cache.h"
#include "lifetime/site.h"
#include "malloc/allocation_site.h"
#include "malloc/fast_path.h"
#include "malloc/runtime.h"
#include "span/size_classes.h"

namespace strata {

namespace predicted_internal {
extern __attribute__((visibility("hidden"))) PredictionCache::Words g_words;
extern __attribute__((visibility("hidden"))) std::atomic<bool> g_predicts;
}  // namespace predicted_internal

STRATA_ALWAYS_INLINE PredictionCache Predictions() {
  return PredictionCache(predicted_internal::g_words);
}
// Whether anything is. Threads notice a change at the end of a stretch.
STRATA_ALWAYS_INLINE bool Predicts() {
  return predicted_internal::g_predicts.load(std::memory_order_relaxed);
}

// A debug build takes half of all places to allocate what lasts, so that tests meet such blocks in
// every call.
#ifdef NDEBUG
inline constexpr bool kTakesHalfToLast = false;
#else
inline constexpr bool kTakesHalfToLast = true;
#endif

STRATA_ALWAYS_INLINE Prediction PredictionFor(SiteKey key) {
  const Prediction found = Predictions().Find(key);
  const bool is_taken = kTakesHalfToLast && found.kind() == Prediction::kNone;
  return is_taken && (Raw(key) >> 40 & 1) != 0 ? Prediction(Prediction::kLasts) : found;
}

// For a place whose callers differ, which `found` says: looks at as many of them as need be.
SizeClass ClassByCallers(AllocationSite site, SizeClass c, Prediction found);

// Null where a sample is due, and for whatever is not simple: nothing is counted then. A changed
// rate is noticed at the next sample.
STRATA_ALWAYS_INLINE void* PopOf(SizeClass c, size_t size) {
  ThreadState& t = t_state;
  if (!t.countdown.HasBeyond(size) || t.slabs == nullptr) return nullptr;
  void* p = RseqPop(SlabsOf(TheRuntime()), t.slabs, c);
  if (STRATA_LIKELY(p != nullptr)) t.countdown.SpendBeyond(size);
  return p;
}

}  // namespace strata
