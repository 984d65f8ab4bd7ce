// How long the sampled objects of one kind lived: sums for mean and deviation, and a histogram for
// quantiles. Two buckets a doubling, 6.6 a decade. Everything but the extremes can be subtracted,
// so that a window of time is the difference of two states. Sits in profile; the sampler's lock
// guards it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {

struct LifetimeHistogram {
  // From 1 µs (2^10 ns) to 13 days (2^50 ns); the ends hold what is shorter and longer.
  static constexpr size_t kLowest = 10;
  static constexpr size_t kDoublings = 40;
  static constexpr size_t kBuckets = 2 * kDoublings;

  double weight[kBuckets] = {};

  static size_t BucketOf(uint64_t ns) {
    if (ns < (uint64_t{1} << kLowest)) return 0;
    const auto power = static_cast<size_t>(std::bit_width(ns)) - 1;
    // The upper half of a doubling begins at its middle as ratios go: 1.41 times its start, of
    // which 1.414 in binary is 1 + 53/128.
    const uint64_t start = uint64_t{1} << power;
    const size_t half = ns - start >= (start >> 7) * 53 ? 1 : 0;
    const size_t bucket = (power - kLowest) * 2 + half;
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  // In ns; BoundOf(b + 1) is the end of bucket b.
  static double BoundOf(size_t bucket) {
    const auto start = static_cast<double>(uint64_t{1} << (kLowest + bucket / 2));
    return bucket % 2 == 0 ? start : start * 1.4140625;
  }

  // The value below which the share q of the weight lies, between `least` and `most`, which are
  // known exactly; 0 if there is no weight. Within a bucket, evenly spread.
  double Quantile(double q, double least, double most) const {
    double total = 0;
    for (const double w : weight) total += w;
    if (total <= 0) return 0;
    double wanted = q * total;
    size_t bucket = 0;
    double share = 0;
    for (size_t b = 0; b < kBuckets; ++b) {
      if (weight[b] <= 0) continue;  // also before the first: the share 0 begins with that
      bucket = b;
      share = wanted / weight[b];
      if (share <= 1) break;
      wanted -= weight[b];
    }
    const double from = bucket == 0 ? 0 : BoundOf(bucket);
    const double to = BoundOf(bucket + 1);
    const double value = from + (to - from) * (share < 1 ? share : 1);
    return value < least ? least : (value > most ? most : value);
  }
};

// Of the objects that were freed. Weighted: what one sample stands for.
struct Lifetimes {
  double objects = 0;
  double bytes = 0;
  double sum_ns = 0;
  double sum_square = 0;
  double other_thread = 0;  // objects freed by another thread than their allocator
  double other_cpu = 0;
  uint64_t least_ns = UINT64_MAX;
  uint64_t most_ns = 0;

  void Add(uint64_t ns, double weight, double size) {
    const auto t = static_cast<double>(ns);
    objects += weight;
    bytes += weight * size;
    sum_ns += weight * t;
    sum_square += weight * t * t;
    if (ns < least_ns) least_ns = ns;
    if (ns > most_ns) most_ns = ns;
  }
};

}  // namespace strata
