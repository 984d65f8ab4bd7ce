// How long the sampled objects of one kind lived: sums for mean and deviation, and a histogram for
// quantiles. Two buckets a doubling, 6.6 a decade, but a decade begins with a bucket: classes of
// lifetimes are decades, and a quantile within a bucket is a guess. The widest, from 10 ms on, ends
// at 1.68 times its beginning. Everything but the extremes can
// be subtracted, so that a window of time is the difference of two states. Sits in profile; the
// sampler's lock guards it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {

// In ns, where each bucket begins and the last one ends: from 1 µs (2^10 ns) on. The upper half of
// a doubling begins at its middle as ratios go: 1.41 times its start, of which 1.414 in binary is
// 1 + 53/128. Of all these the nearest to a decade is that.
inline constexpr size_t kLowestDoubling = 10;
template <size_t kBuckets>
constexpr std::array<uint64_t, kBuckets + 1> MakeLifetimeBounds() {
  std::array<uint64_t, kBuckets + 1> bounds{};
  for (size_t b = 0; b <= kBuckets; ++b) {
    const uint64_t start = uint64_t{1} << (kLowestDoubling + b / 2);
    bounds[b] = start + (b % 2 == 0 ? 0 : (start >> 7) * 53);
  }
  for (uint64_t decade = 10'000; decade < bounds[kBuckets]; decade *= 10) {
    size_t b = 0;
    while (bounds[b + 1] <= decade) ++b;
    const auto ratio = [&](size_t x, size_t y) {
      return static_cast<double>(x) / static_cast<double>(y);
    };
    bounds[ratio(decade, bounds[b]) < ratio(bounds[b + 1], decade) ? b : b + 1] = decade;
  }
  return bounds;
}

struct LifetimeHistogram {
  static constexpr size_t kBuckets = 80;  // up to 12 days; the ends hold what is shorter and longer
  static constexpr std::array<uint64_t, kBuckets + 1> kBounds = MakeLifetimeBounds<kBuckets>();

  double weight[kBuckets] = {};

  static size_t BucketOf(uint64_t ns) {
    if (ns < kBounds[0]) return 0;
    const auto power = static_cast<size_t>(std::bit_width(ns)) - 1;
    size_t bucket = std::min((power - kLowestDoubling) * 2, kBuckets - 1);
    if (ns < kBounds[bucket]) return bucket - 1;
    while (bucket + 1 < kBuckets && ns >= kBounds[bucket + 1]) ++bucket;
    return bucket;
  }
  // In ns; BoundOf(b + 1) is the end of bucket b.
  static double BoundOf(size_t bucket) { return static_cast<double>(kBounds[bucket]); }

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
