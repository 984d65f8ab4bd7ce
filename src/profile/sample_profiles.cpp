// The kinds of profiles. See sample_profiles.h.
#include "profile/sample_profiles.h"

#include "base/arch.h"

namespace strata {
namespace {

// Spelled out, so that the tables need no work of the loader's in every program.
struct TypeNames {
  char type[sizeof("freed_by_other_thread")];
  char unit[sizeof("nanoseconds")];
};

constexpr TypeNames kHeapTypes[] = {{"alloc_objects", "count"},
                                    {"alloc_space", "bytes"},
                                    {"inuse_objects", "count"},
                                    {"inuse_space", "bytes"},
                                    {"samples", "count"}};
constexpr TypeNames kPeakTypes[] = {
    {"inuse_objects", "count"}, {"inuse_space", "bytes"}, {"samples", "count"}};
constexpr TypeNames kLifetimeTypes[] = {{"objects", "count"},
                                        {"space", "bytes"},
                                        {"lifetime_min", "nanoseconds"},
                                        {"lifetime_mean", "nanoseconds"},
                                        {"lifetime_max", "nanoseconds"},
                                        {"lifetime_stddev", "nanoseconds"},
                                        {"lifetime_p50", "nanoseconds"},
                                        {"lifetime_p75", "nanoseconds"},
                                        {"lifetime_p90", "nanoseconds"},
                                        {"lifetime_p95", "nanoseconds"},
                                        {"freed_by_other_thread", "percent"},
                                        {"freed_by_other_cpu", "percent"},
                                        {"still_live", "count"},
                                        {"died_10ms", "count"},
                                        {"died_100ms", "count"},
                                        {"died_1s", "count"},
                                        {"died_10s", "count"},
                                        {"died_100s", "count"},
                                        {"died_1000s", "count"},
                                        {"samples", "count"}};
constexpr TypeNames kFragmentationTypes[] = {
    {"wasted_space", "bytes"}, {"inuse_space", "bytes"}, {"samples", "count"}};

template <size_t kN>
ProfileShape Shape(const TypeNames (&names)[kN], const char* shown) {
  static_assert(kN <= ProfileShape::kMostTypes);
  ProfileShape shape{{}, kN, shown};
  for (size_t i = 0; i < kN; ++i) shape.types[i] = {names[i].type, names[i].unit};
  return shape;
}

int64_t Rounded(double value) { return value <= 0 ? 0 : arch::Rounded(value); }

double SquareRoot(double x) { return x <= 0 ? 0 : arch::SquareRoot(x); }

PprofLabel BytesLabel(size_t bytes) {
  return {"bytes", nullptr, static_cast<int64_t>(bytes), "bytes"};
}

bool AddRow(PprofWriter& writer, const SampleSnapshot::Row& row, const int64_t* values) {
  const PprofLabel label = BytesLabel(row.bytes);
  return writer.Add(row.context->frames(), row.context->depth, values, &label, 1);
}

// What was allocated or freed since.
SampleSums Difference(const SampleSums& now, const SampleSums& then) {
  SampleSums d = now;
  d.samples -= then.samples;
  d.allocated_objects -= then.allocated_objects;
  d.allocated_bytes -= then.allocated_bytes;
  d.lifetimes.objects -= then.lifetimes.objects;
  d.lifetimes.bytes -= then.lifetimes.bytes;
  d.lifetimes.sum_ns -= then.lifetimes.sum_ns;
  d.lifetimes.sum_square -= then.lifetimes.sum_square;
  d.lifetimes.other_thread -= then.lifetimes.other_thread;
  d.lifetimes.other_cpu -= then.lifetimes.other_cpu;
  return d;
}

struct Live {
  double objects;
  double bytes;
  int64_t samples;
};

// What each row has live that was allocated after `since_ns`.
bool CountLive(const Sampler& sampler, size_t rows, uint64_t since_ns, ScratchArray<Live>& out) {
  if (!out.Reserve(rows)) return false;
  out.Grow(rows);
  sampler.VisitLive([&](const LiveSample& s) {
    if (s.born_ns < since_ns || s.row->number >= rows) return;
    const double weight = s.weight();
    out[s.row->number].objects += weight;
    out[s.row->number].bytes += weight * static_cast<double>(s.size);
    ++out[s.row->number].samples;
  });
  return true;
}

bool AddHeapRow(PprofWriter& writer, const SampleSnapshot::Row& row, int64_t samples) {
  const SampleSums& s = row.sums;
  const int64_t values[] = {Rounded(s.allocated_objects), Rounded(s.allocated_bytes),
                            Rounded(s.live_objects), Rounded(s.live_bytes), samples};
  if (values[1] == 0 && values[3] == 0) return true;
  return AddRow(writer, row, values);
}

bool AddPeakRow(PprofWriter& writer, const SampleSnapshot::Row& row) {
  const int64_t values[] = {Rounded(row.sums.peak_objects), Rounded(row.sums.peak_bytes),
                            row.sums.peak_samples};
  return values[1] == 0 || AddRow(writer, row, values);
}

enum class Period : bool { kSinceStart, kInWindow };

// How many died in each class of lifetimes, which quantiles tell only where the class begins or
// ends at one; what lived longer than the last is not among them.
constexpr size_t kClasses = 6;
void CountByClass(const LifetimeHistogram& histogram, int64_t* counts) {
  size_t bucket = 0;
  for (uint64_t k = 0, end_ns = 10'000'000; k < kClasses; ++k, end_ns *= 10) {
    double died = 0;
    for (; LifetimeHistogram::kBounds[bucket] < end_ns; ++bucket) died += histogram.weight[bucket];
    counts[k] = Rounded(died);
  }
}

bool AddLifetimeRow(PprofWriter& writer, const SampleSnapshot::Row& row,
                    const LifetimeHistogram& histogram, Period period) {
  const Lifetimes& l = row.sums.lifetimes;
  if (Rounded(l.objects) == 0 && Rounded(row.sums.live_objects) == 0) return true;
  int64_t values[14 + kClasses] = {};
  values[0] = Rounded(l.objects);
  values[1] = Rounded(l.bytes);
  values[12] = Rounded(row.sums.live_objects);
  values[13 + kClasses] = static_cast<int64_t>(row.sums.samples);
  if (l.objects > 0) {
    const double mean = l.sum_ns / l.objects;
    // The extremes are those since the start; a window has them to the width of a bucket.
    double least = static_cast<double>(l.least_ns);
    double most = static_cast<double>(l.most_ns);
    if (period == Period::kInWindow) {
      const double low = histogram.Quantile(0, least, most);
      const double high = histogram.Quantile(1, least, most);
      least = low;
      most = high;
    }
    values[2] = Rounded(least);
    values[3] = Rounded(mean);
    values[4] = Rounded(most);
    values[5] = Rounded(SquareRoot(l.sum_square / l.objects - mean * mean));
    constexpr double kQuantiles[] = {0.5, 0.75, 0.9, 0.95};
    for (size_t i = 0; i < 4; ++i)
      values[6 + i] = Rounded(histogram.Quantile(kQuantiles[i], least, most));
    values[10] = Rounded(100 * l.other_thread / l.objects);
    values[11] = Rounded(100 * l.other_cpu / l.objects);
    CountByClass(histogram, values + 13);
  }
  const PprofLabel labels[] = {BytesLabel(row.bytes),
                               {"predicted_class", nullptr, row.predicted, nullptr}};
  return writer.Add(row.context->frames(), row.context->depth, values, labels,
                    row.predicted != 0 ? 2 : 1);
}

void Subtract(LifetimeHistogram& now, const LifetimeHistogram& then) {
  for (size_t b = 0; b < LifetimeHistogram::kBuckets; ++b) now.weight[b] -= then.weight[b];
}

// What the old samples of one row and age class keep.
struct Pinning {
  double in_span;
  double in_hugepage;
  double bytes;
  int64_t samples;
};
// Each asks the heap under two of its locks, with the sampler's held: the block stays live so.
constexpr size_t kAskedAtOnce = 16;
constexpr size_t kAges = 5;  // from 1 s, 10 s, 100 s, 1000 s, 10,000 s on

size_t AgeClass(uint64_t age_ns) {
  size_t age = 0;
  for (uint64_t bound = kPinningAgeNs * 10; age + 1 < kAges && age_ns >= bound; bound *= 10) ++age;
  return age;
}

// What an estimate has to be multiplied with where it is of more than there is.
double FittingIn(double most, double estimate) { return estimate > most ? most / estimate : 1; }

bool AddFragmentationRows(PprofWriter& writer, const Sampler& sampler, const SampleSnapshot& now,
                          PinnedBytesOf pinned) {
  const size_t rows = now.rows.size();
  ScratchArray<Pinning> sums;
  if (!sums.Reserve(rows * kAges)) return false;
  sums.Grow(rows * kAges);
  sampler.VisitLive(
      [&](const LiveSample& s) {
        const uint64_t age = now.time_ns > s.born_ns ? now.time_ns - s.born_ns : 0;
        if (age < kPinningAgeNs || s.row->number >= rows) return;
        const PinnedBytes share =
            pinned.ask(pinned.heap, s.address.load(std::memory_order_relaxed));
        Pinning& sum = sums[s.row->number * kAges + AgeClass(age)];
        const double weight = s.weight();
        sum.in_span += weight * share.in_span;
        sum.in_hugepage += weight * share.in_hugepage;
        sum.bytes += weight * static_cast<double>(s.size);
        ++sum.samples;
      },
      kAskedAtOnce);
  PinnedBytes whole;
  for (size_t i = 0; i < sums.size(); ++i) {
    whole.in_span += sums[i].in_span;
    whole.in_hugepage += sums[i].in_hugepage;
  }
  const double in_span = FittingIn(pinned.most.in_span, whole.in_span);
  const double in_hugepage = FittingIn(pinned.most.in_hugepage, whole.in_hugepage);
  for (size_t i = 0; i < sums.size(); ++i) {
    const SampleSnapshot::Row& row = now.rows[i / kAges];
    int64_t age_s = 1;
    for (size_t a = 0; a < i % kAges; ++a) age_s *= 10;
    PprofLabel labels[] = {
        BytesLabel(row.bytes), {"age_s", nullptr, age_s, "seconds"}, {"level", "page", 0, nullptr}};
    const double wasted[] = {in_span * sums[i].in_span, in_hugepage * sums[i].in_hugepage};
    int64_t samples = sums[i].samples;  // of both rows, so that a sum has them once
    for (size_t level = 0; level < 2; ++level) {
      labels[2].text = level == 0 ? "page" : "hugepage";
      const int64_t values[] = {Rounded(wasted[level]), Rounded(sums[i].bytes), samples};
      if (values[0] == 0) continue;
      samples = 0;
      if (!writer.Add(row.context->frames(), row.context->depth, values, labels, 3)) return false;
    }
  }
  return true;
}

}  // namespace

ProfileShape ShapeOf(ProfileKind kind) {
  switch (kind) {
    case ProfileKind::kHeap:
      return Shape(kHeapTypes, "inuse_space");
    case ProfileKind::kAllocs:
      return Shape(kHeapTypes, "alloc_space");
    case ProfileKind::kPeak:
      return Shape(kPeakTypes, "inuse_space");
    case ProfileKind::kLifetime:
      return Shape(kLifetimeTypes, "space");
    case ProfileKind::kFragmentation:
      break;
  }
  return Shape(kFragmentationTypes, "wasted_space");
}

bool SampleSnapshot::Take(const Sampler& sampler, ProfileKind kind, uint64_t now_ns) {
  time_ns = now_ns;
  const size_t n = sampler.rows();
  const bool lifetimes = kind == ProfileKind::kLifetime;
  // All memory first: none is mapped under the sampler's lock.
  if (!rows.Reserve(n) || (lifetimes && !histograms.Reserve(n))) return false;
  sampler.VisitRows([&](const SampleRow& row, const SampleSums& sums) {
    if (row.number >= n) return;  // made since
    rows[row.number] = {row.context, row.bytes, sums,
                        row.predicted.load(std::memory_order_relaxed)};
    if (lifetimes && row.histogram != nullptr) histograms[row.number] = *row.histogram;
  });
  rows.Grow(n);
  if (lifetimes) histograms.Grow(n);
  return true;
}

bool AddProfileRows(PprofWriter& writer, ProfileKind kind, const Sampler& sampler,
                    const SampleSnapshot* since, uint64_t now_ns, PinnedBytesOf pinned) {
  SampleSnapshot now;
  if (!now.Take(sampler, kind, now_ns)) return false;
  if (kind == ProfileKind::kFragmentation)
    return AddFragmentationRows(writer, sampler, now, pinned);
  ScratchArray<Live> live;
  const bool young_only = since != nullptr && kind == ProfileKind::kHeap;
  if (young_only && !CountLive(sampler, now.rows.size(), since->time_ns, live)) return false;
  for (size_t i = 0; i < now.rows.size(); ++i) {
    SampleSnapshot::Row& row = now.rows[i];
    const bool changed = since != nullptr && i < since->rows.size();
    if (changed) row.sums = Difference(row.sums, since->rows[i].sums);
    if (young_only) {
      row.sums.live_objects = live[i].objects;
      row.sums.live_bytes = live[i].bytes;
      row.sums.live_samples = live[i].samples;
    }
    bool ok = true;
    switch (kind) {
      case ProfileKind::kHeap:
        ok = AddHeapRow(writer, row, row.sums.live_samples);
        break;
      case ProfileKind::kAllocs:
        ok = AddHeapRow(writer, row, static_cast<int64_t>(row.sums.samples));
        break;
      case ProfileKind::kPeak:
        ok = AddPeakRow(writer, row);
        break;
      case ProfileKind::kLifetime:
        if (changed) Subtract(now.histograms[i], since->histograms[i]);
        ok = AddLifetimeRow(writer, row, now.histograms[i],
                            since == nullptr ? Period::kSinceStart : Period::kInWindow);
        break;
      case ProfileKind::kFragmentation:
        break;
    }
    if (!ok) return false;
  }
  return true;
}

}  // namespace strata
