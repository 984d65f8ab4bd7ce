// See lifetime_evidence.h.
#include "heaps/lifetime_evidence.h"

#include <algorithm>

#include "profile/sample_math.h"

namespace strata {
namespace {

// What dies at random with a median of one lives longer than two with a chance of a quarter.
constexpr double kMediansToLast = 2;
// The memory of what lives shorter is used again before anything can be done with it.
constexpr double kLeastToLastNs = 20e6;
constexpr double kNever = 1e18;

// Whether the row can be evidence: samples of a class, from a place that has a key.
bool IsOfAPlace(const SampleRow& row) { return row.site.key != 0 && row.bytes <= kMaxClassSize; }

double WeightBeyond(const LifetimeHistogram& h, double ns) {
  double sum = 0;
  for (size_t b = 0; b < LifetimeHistogram::kBuckets; ++b) {
    if (LifetimeHistogram::BoundOf(b) >= ns) sum += h.weight[b];
  }
  return sum;
}

double AllWeight(const LifetimeHistogram& h) {
  double sum = 0;
  for (const double w : h.weight) sum += w;
  return sum;
}

}  // namespace

bool LifetimeEvidence::knows_usual(SizeClass c) const { return usual_ns_[Raw(c)] < kNever; }

bool LifetimeEvidence::MakeRoom(size_t rows) {
  return by_size_.Extend(kNumSizes + 1) && histograms_.Extend(kNumSizes + 1) &&
         by_row_.Extend(rows) && rows_.Extend(rows);
}

bool LifetimeEvidence::Gather(const Sampler& sampler, uint64_t now_ns) {
  const size_t n = sampler.rows();
  if (n == 0 || !MakeRoom(n)) return false;
  const double keeps = NoteTime(now_ns);
  FindUsual(sampler, keeps);
  for (size_t i = 0; i < n; ++i) rows_[i] = {};
  sampler.VisitRows([this, keeps](const SampleRow& row, const SampleSums& sums) {
    if (row.number < rows_.size() && IsOfAPlace(row)) NoteRow(row, sums, keeps);
  });
  sampler.VisitLive([this, now_ns](const LiveSample& s) {
    if (s.row->number >= rows_.size() || !IsOfAPlace(*s.row)) return;
    const auto age = static_cast<double>(AgeOf(s.born_ns, now_ns));
    if (age >= usual_ns_[Raw(ClassOfSize(s.row->bytes))]) rows_[s.row->number].lasted += 1;
  });
  return true;
}

// Who was born "later" was so before the clock went back.
uint64_t LifetimeEvidence::AgeOf(uint64_t born_ns, uint64_t now_ns) const {
  const uint64_t since = born_ns > now_ns ? jumped_ns_ : std::max(born_ns, jumped_ns_);
  const uint64_t before = std::max(born_ns, aged_from_ns_);
  return (now_ns - since) + (before < gap_began_ns_ ? gap_began_ns_ - before : 0);
}

// What the past is worth still.
double LifetimeEvidence::NoteTime(uint64_t now_ns) {
  const bool back = now_ns < looked_ns_;
  const uint64_t passed = back ? 0 : now_ns - looked_ns_;
  const bool is_first = looked_ns_ == 0;
  const uint64_t looked_ns = looked_ns_;
  looked_ns_ = now_ns;
  if (!is_first && (back || passed > kMostBetweenLooksNs)) {
    aged_from_ns_ = jumped_ns_;
    gap_began_ns_ = back ? 0 : looked_ns;
    jumped_ns_ = now_ns;
    return 1;
  }
  return 1 - ChanceOfSample(static_cast<double>(passed) / kHalfLifeNs * 0.69314718055994531);
}

void LifetimeEvidence::FindUsual(const Sampler& sampler, double keeps) {
  for (size_t c = 1; c <= kNumSizes; ++c) histograms_[c] = {};
  sampler.VisitRows([this](const SampleRow& row, const SampleSums&) {
    if (row.histogram == nullptr || row.bytes > kMaxClassSize) return;
    LifetimeHistogram& sum = histograms_[Raw(ClassOfSize(row.bytes))];
    for (size_t b = 0; b < LifetimeHistogram::kBuckets; ++b)
      sum.weight[b] += row.histogram->weight[b];
  });
  for (size_t c = 1; c <= kNumSizes; ++c) {
    LifetimeHistogram& h = histograms_[c];
    for (size_t b = 0; b < LifetimeHistogram::kBuckets; ++b) {
      by_size_[c].at[b].Look(h.weight[b], keeps);
      h.weight[b] = by_size_[c].at[b].lately;
    }
    const double median = h.Quantile(0.5, 0, kNever);
    usual_ns_[c] =
        median <= 0 ? kNever : std::max({kMediansToLast * median, kLeastToLastNs, least_ns_[c]});
  }
}

void LifetimeEvidence::NoteRow(const SampleRow& row, const SampleSums& sums, double keeps) {
  SiteEvidence& e = rows_[row.number];
  const bool counts = !is_ignored_[Raw(ClassOfSize(row.bytes))];
  e.site = counts ? static_cast<SiteKey>(row.site.key) : SiteKey::kNone;
  e.frames = row.context->frames();
  e.words_up = row.site.words_up;
  e.depth = row.context->depth;
  if (row.histogram == nullptr || sums.allocated_objects <= 0) return;
  // The histogram counts objects.
  const double samples = static_cast<double>(sums.samples) / sums.allocated_objects;
  RowDeaths& deaths = by_row_[row.number];
  deaths.all.Look(AllWeight(*row.histogram) * samples, keeps);
  deaths.beyond.Look(WeightBeyond(*row.histogram, usual_ns_[Raw(ClassOfSize(row.bytes))]) * samples,
                     keeps);
  e.lasted = static_cast<float>(deaths.beyond.lately);
  e.passed = static_cast<float>(std::max(deaths.all.lately - deaths.beyond.lately, 0.0));
}

}  // namespace strata
