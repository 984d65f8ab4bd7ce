// See lifetimes.h.
#include "malloc/lifetimes.h"

#include <bit>

#include "lifetime/site_learner.h"
#include "malloc/predicted_path.h"
#include "malloc/runtime.h"
#include "profile/scratch_array.h"
#include "profile/stack_walk.h"
#include "profile/unwind/stack_reader.h"

namespace strata {

namespace predicted_internal {
alignas(64) constinit PredictionCache::Words g_words{};
constinit std::atomic<bool> g_predicts{false};
}  // namespace predicted_internal

namespace {

std::atomic<size_t> g_predictions{0};
std::atomic<uint64_t> g_changes{0};
std::atomic<uint64_t> g_rounds{0};

// An object lasts if it outlives so many medians of those of its size that died. What dies at
// random with a median of one lives longer than two with a chance of a quarter.
constexpr double kMediansToLast = 2;
// Below, the pages of the shortlived are gone and back too fast to matter.
constexpr double kLeastToLastNs = 20e6;

// What is usual for each size, and where that ends.
class Usual {
 public:
  // False: no memory.
  bool Take(const Sampler& sampler) {
    if (!deaths_.Reserve(kNumSizes + 1)) return false;
    deaths_.Grow(kNumSizes + 1);
    sampler.VisitRows([this](const SampleRow& row, const SampleSums&) {
      if (row.histogram == nullptr || row.bytes > kMaxClassSize) return;
      LifetimeHistogram& sum = deaths_[Raw(ClassOfSize(row.bytes))];
      for (size_t b = 0; b < LifetimeHistogram::kBuckets; ++b)
        sum.weight[b] += row.histogram->weight[b];
    });
    for (size_t c = 1; c <= kNumSizes; ++c) {
      const double median = deaths_[c].Quantile(0.5, 0, 1e18);
      const double end = kMediansToLast * median;
      ends_[c] = median == 0 ? 1e18 : (end > kLeastToLastNs ? end : kLeastToLastNs);
    }
    return true;
  }
  // In ns. Of a size of which nothing died yet, everything is usual.
  double EndFor(SizeClass c) const { return ends_[Raw(c)]; }

 private:
  ScratchArray<LifetimeHistogram> deaths_;
  double ends_[kNumSizes + 1] = {};
};

// The part of the histogram's weight that lies beyond `ns`, by whole buckets.
double WeightBeyond(const LifetimeHistogram& h, double ns, double* all) {
  double beyond = 0;
  *all = 0;
  for (size_t b = 0; b < LifetimeHistogram::kBuckets; ++b) {
    *all += h.weight[b];
    if (LifetimeHistogram::BoundOf(b) >= ns) beyond += h.weight[b];
  }
  return beyond;
}

class Evidence {
 public:
  bool Gather(const Sampler& sampler, const Usual& usual, uint64_t now_ns) {
    const size_t n = sampler.rows();
    if (n == 0 || !rows_.Reserve(n)) return false;
    rows_.Grow(n);
    sampler.VisitRows([this, &usual](const SampleRow& row, const SampleSums& sums) {
      if (row.number < rows_.size()) NoteDead(rows_[row.number], row, sums, usual);
    });
    sampler.VisitLive([this, &usual, now_ns](const LiveSample& s) {
      if (s.row->number >= rows_.size() || s.row->bytes > kMaxClassSize) return;
      const double age = now_ns > s.born_ns ? static_cast<double>(now_ns - s.born_ns) : 0;
      if (age >= usual.EndFor(ClassOfSize(s.row->bytes))) rows_[s.row->number].lasted += 1;
    });
    return true;
  }
  SiteEvidence* data() { return rows_.data(); }
  size_t size() const { return rows_.size(); }

 private:
  static void NoteDead(SiteEvidence& e, const SampleRow& row, const SampleSums& sums,
                       const Usual& usual) {
    if (row.site.key == 0 || row.bytes > kMaxClassSize || sums.allocated_objects <= 0) return;
    e.site = static_cast<SiteKey>(row.site.key);
    e.words_up = row.site.words_up;
    e.frames = row.context->frames();
    e.depth = row.context->depth;
    if (row.histogram == nullptr) return;
    // The histogram is in objects.
    const double samples = static_cast<double>(sums.samples) / sums.allocated_objects;
    double all;
    const double beyond =
        WeightBeyond(*row.histogram, usual.EndFor(ClassOfSize(row.bytes)), &all);
    e.lasted = static_cast<float>(beyond * samples);
    e.passed = static_cast<float>((all - beyond) * samples);
  }

  ScratchArray<SiteEvidence> rows_;
};

// What a look costs at most, as a part of the time between two.
constexpr uint64_t kPartOfTime = 100;
constexpr uint64_t kBusyNs = 100'000'000, kIdleNs = 1'000'000'000;

void Learn() {
  Runtime& r = TheRuntime();
  Usual usual;
  Evidence evidence;
  ScratchArray<SiteTally> tallies;
  ScratchArray<uint64_t> words;
  if (!usual.Take(r.sampler) || !evidence.Gather(r.sampler, usual, r.kernel.NowNs())) return;
  const size_t slots = std::bit_ceil(2 * evidence.size() + 1);
  if (!tallies.Reserve(slots) || !words.Reserve(PredictionCache::kEntries)) return;
  PredictionCache::Draft draft(words.data());
  SiteLearner learner(tallies.data(), slots);
  const size_t made = learner.Decide(evidence.data(), evidence.size(), draft);
  g_changes.fetch_add(Predictions().Publish(draft), std::memory_order_relaxed);
  g_predictions.store(made, std::memory_order_relaxed);
  predicted_internal::g_predicts.store(made != 0, std::memory_order_relaxed);
  g_rounds.fetch_add(1, std::memory_order_relaxed);
}

static_assert(SiteLearner::kMostFrames <= SampleSite::kMostFrames);

}  // namespace

uint64_t LearnLifetimes(uint64_t now_ns) {
  Runtime& r = TheRuntime();
  static uint64_t seen = 0;  // by the one caller
  const uint64_t samples = r.sampler.Stats().samples;
  const bool is_busy = samples != seen;
  seen = samples;
  Learn();
  const uint64_t rest = (r.kernel.NowNs() - now_ns) * kPartOfTime;
  const uint64_t least = is_busy ? kBusyNs : kIdleNs;
  return now_ns + (rest > least ? rest : least);
}

LifetimeStats StatsOfLifetimes() {
  return {g_predictions.load(std::memory_order_relaxed), g_changes.load(std::memory_order_relaxed),
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

SizeClass ClassByCallers(const AllocationSite& site, SiteKey key, Prediction found, SizeClass c) {
  const SiteKey innermost = key;
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
