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
#include "malloc/guard.h"
#include "malloc/runtime.h"
#include "span/size_classes.h"

namespace strata {

// Closely: a place may be new, or the guards see each allocation.
enum class Predicting : uint8_t { kNothing, kPlainly, kClosely };

namespace predicted_internal {
extern __attribute__((visibility("hidden"))) PredictionCache::Words g_words;
extern __attribute__((visibility("hidden"))) std::atomic<Predicting> g_predicts;
inline constexpr size_t kMetBits = 15;
extern __attribute__((visibility("hidden"))) std::atomic<bool> g_asks_of_new;
extern __attribute__((visibility("hidden"))) std::atomic<uint64_t> g_met[(1 << kMetBits) / 64];
extern __attribute__((visibility("hidden"))) std::atomic<uint32_t> g_hits;
}  // namespace predicted_internal

STRATA_ALWAYS_INLINE PredictionCache Predictions() {
  return PredictionCache(predicted_internal::g_words);
}
// Threads notice a change at the end of a stretch.
STRATA_ALWAYS_INLINE Predicting HowPredicted() {
  return predicted_internal::g_predicts.load(std::memory_order_relaxed);
}
STRATA_ALWAYS_INLINE bool Predicts() { return HowPredicted() != Predicting::kNothing; }

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

// A place that the model should be asked about at its first object, however rarely it allocates. By
// a bit of the key: one of two places with the same bit has to wait for a sample, and a process
// meets no more places than there are bits.
STRATA_ALWAYS_INLINE bool IsNewPlace(SiteKey key) {
  using namespace predicted_internal;
  if (!g_asks_of_new.load(std::memory_order_relaxed)) return false;
  const auto bit = static_cast<size_t>(Raw(key) >> (64 - kMetBits));
  return (g_met[bit / 64].load(std::memory_order_relaxed) >> (bit % 64) & 1) == 0;
}
// False: another thread was first.
STRATA_ALWAYS_INLINE bool MeetPlace(SiteKey key) {
  using namespace predicted_internal;
  const auto bit = static_cast<size_t>(Raw(key) >> (64 - kMetBits));
  const uint64_t mask = uint64_t{1} << (bit % 64);
  return (g_met[bit / 64].fetch_or(mask, std::memory_order_relaxed) & mask) == 0;
}

// Of a place that is predicted to last, as an object of the class is allocated slowly: whether the
// model should look at who calls from there now. About every 1,000 objects of all such places, as
// Maas et al. have it (ASPLOS 2020, section 6).
inline bool IsToBeAskedAgain(SizeClass c) {
  using namespace predicted_internal;
  constexpr uint32_t kHits = 1024;
  if (!g_asks_of_new.load(std::memory_order_relaxed)) return false;
  // The others of its batch are in the cache of the CPU, if there is one and nobody looks at each.
  const bool is_alone = t_state.slabs == nullptr || GuardsSeeAll();
  const auto more = static_cast<uint32_t>(is_alone ? 1 : InfoOf(c).batch);
  const uint32_t before = g_hits.fetch_add(more, std::memory_order_relaxed);
  return before / kHits != (before + more) / kHits;
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
