// See lifetimes.h.
#include "malloc/lifetimes.h"

#include <bit>

#include "heaps/lifetime_evidence.h"
#include "lifetime/site_learner.h"
#include "malloc/predicted_path.h"
#include "malloc/runtime.h"
#include "profile/scratch_array.h"
#include "profile/stack_walk.h"
#include "profile/unwind/stack_reader.h"

namespace strata {

namespace predicted_internal {
alignas(64) constinit PredictionCache::Words g_words{};
constinit std::atomic<bool> g_predicts{kTakesHalfToLast};
}  // namespace predicted_internal

namespace {

std::atomic<size_t> g_places{0};
std::atomic<uint64_t> g_changes{0};
std::atomic<uint64_t> g_rounds{0};

// What a look costs at most, as a part of the time between two.
constexpr uint64_t kPartOfTime = 100;
constexpr uint64_t kBusyNs = 100'000'000, kIdleNs = 1'000'000'000;

static_assert(SiteLearner::kMostFrames <= SampleSite::kMostFrames);

}  // namespace

void LifetimeLearner::Learn(Runtime& r) {
  ScratchArray<SiteTally> tallies;
  ScratchArray<uint64_t> words;
  if (!evidence_.Gather(r.sampler, r.kernel.NowNs())) return;
  const size_t slots = std::bit_ceil(2 * evidence_.size() + 1);
  if (!tallies.Reserve(slots) || !words.Reserve(PredictionCache::kEntries)) return;
  PredictionCache::Draft draft(words.data());
  SiteLearner learner(tallies.data(), slots);
  const size_t made = learner.Decide(evidence_.rows(), evidence_.size(), draft);
  g_changes.fetch_add(Predictions().Publish(draft), std::memory_order_relaxed);
  g_places.store(made, std::memory_order_relaxed);
  predicted_internal::g_predicts.store(made != 0 || kTakesHalfToLast, std::memory_order_relaxed);
  g_rounds.fetch_add(1, std::memory_order_relaxed);
}

uint64_t LifetimeLearner::Look(uint64_t now_ns) {
  Runtime& r = TheRuntime();
  const uint64_t samples = r.sampler.Stats().samples;
  const bool is_busy = samples != samples_;
  samples_ = samples;
  Learn(r);
  const uint64_t rest = (r.kernel.NowNs() - now_ns) * kPartOfTime;
  const uint64_t least = is_busy ? kBusyNs : kIdleNs;
  return now_ns + (rest > least ? rest : least);
}

LearningStats StatsOfLearning() {
  return {g_places.load(std::memory_order_relaxed), g_changes.load(std::memory_order_relaxed),
          g_rounds.load(std::memory_order_relaxed)};
}

namespace {

// The word at an address of the caller's stack, if it lies on the page on which the stack pointer
// is: no other is known to be there.
STRATA_READS_STACK bool LoadNearby(uintptr_t frame, size_t words_up, uintptr_t* word) {
  const uintptr_t address = frame + words_up * sizeof(uintptr_t);
  if (words_up == 0 || ((address ^ frame) & ~(kNativePageSize - 1)) != 0) return false;
  *word = *reinterpret_cast<const volatile uintptr_t*>(address);
  return true;
}

// By the unwind tables, where the places of return addresses are not known or far up.
STRATA_NOINLINE SizeClass ClassByWalk(SiteKey key, SizeClass c) {
  uintptr_t frames[SiteLearner::kMostFrames + 1];
  const size_t n = WalkStack(frames, SiteLearner::kMostFrames + 1);
  for (size_t i = 1; i < n; ++i) {
    key = Deepened(key, frames[i]);
    const Prediction::Kind found = Predictions().Find(key).kind();
    if (found == Prediction::kLasts) return LastingClass(c);
    if (found == Prediction::kNone) return c;
  }
  return c;
}

}  // namespace

SizeClass ClassByCallers(AllocationSite site, SizeClass c, Prediction found) {
  const SiteKey innermost = site.KeyOf(c);
  SiteKey key = innermost;
  for (size_t i = 0; i < SiteLearner::kMostFrames; ++i) {
    uintptr_t caller;
    if (!LoadNearby(site.frame(), found.words_up(), &caller)) return ClassByWalk(innermost, c);
    key = Deepened(key, caller);
    found = Predictions().Find(key);
    if (found.kind() == Prediction::kLasts) return LastingClass(c);
    if (found.kind() == Prediction::kNone) return c;
  }
  return c;
}

}  // namespace strata
