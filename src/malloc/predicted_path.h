// What malloc is while something is predicted of the places that allocate: the look-up of the
// caller in the table, and a pop of the class that it says. Threads come here because their
// stretches end (sampling.cpp), so that a process without predictions pays nothing. Sits in malloc,
// between fast_path.h and slow_path.cpp; lifetimes.h fills the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cache/thread_cache.h"
#include "lifetime/prediction_cache.h"
#include "lifetime/site.h"
#include "malloc/allocation_site.h"
#include "malloc/fast_path.h"
#include "malloc/runtime.h"
#include "span/size_classes.h"

namespace strata {

namespace predicted_internal {
extern PredictionCache::Words g_words;
extern std::atomic<bool> g_predicts;
}  // namespace predicted_internal

STRATA_ALWAYS_INLINE PredictionCache Predictions() {
  return PredictionCache(predicted_internal::g_words);
}
// Whether anything is. Threads notice a change at the end of a stretch.
STRATA_ALWAYS_INLINE bool Predicts() {
  return predicted_internal::g_predicts.load(std::memory_order_relaxed);
}

// For a place whose callers differ, which `found` says.
STRATA_NOINLINE SizeClass ClassByCallers(const AllocationSite& site, SiteKey key, Prediction found,
                                         SizeClass c);

// For sizes that have a class.
STRATA_ALWAYS_INLINE SizeClass PredictedClass(const AllocationSite& site, size_t size) {
  const SizeClass c = ClassOfSize(size);
  const SiteKey key = site.KeyOf(c);
  const Prediction found = Predictions().Find(key);
  if (STRATA_LIKELY(found.kind() == Prediction::kNone)) return c;
  return found.kind() == Prediction::kLasts ? LastingClass(c)
                                            : ClassByCallers(site, key, found, c);
}

// Null where a sample or a look at the sampler's rate is due, and for whatever is not simple:
// nothing is counted then.
STRATA_ALWAYS_INLINE void* PopPredicted(const AllocationSite& site, size_t size) {
  ThreadState& t = t_state;
  if (t.scope != nullptr || size > kMaxClassSize) return nullptr;
  const Runtime& r = TheRuntime();
  if (!t.countdown.MaySpend(size, r.sampler.rate())) return nullptr;
  void* p = nullptr;
  if (STRATA_LIKELY(t.slabs != nullptr)) {
    p = RseqPop(SlabsOf(r), t.slabs, PredictedClass(site, size));
  } else if (t.cache != nullptr) {
    p = t.cache->Pop(PredictedClass(site, size));
  }
  if (STRATA_LIKELY(p != nullptr)) t.countdown.SpendBeyond(size);
  return p;
}

}  // namespace strata
