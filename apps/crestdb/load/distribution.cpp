// The shapes: YCSB's zipfian and latest, and those published of Twitter's and CacheLib's traces.
#include "load/distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace crest {

bool ParseDistribution(std::string_view name, double theta, DistributionSpec* spec) {
  constexpr double kTwitter = 1.07, kTwitterFlat = 0.274;
  struct Known {
    std::string_view name;
    Popularity popularity;
    double theta;  // 0: as asked
  };
  constexpr Known kKnown[] = {
      {"zipfian", Popularity::kZipfian, 0},
      {"uniform", Popularity::kUniform, 0},
      {"latest", Popularity::kLatest, 0},
      {"hotspot", Popularity::kHotspot, 0},
      {"twitter", Popularity::kZipfian, kTwitter},
      {"twitter-flat", Popularity::kZipfian, kTwitterFlat},
      {"cachelib", Popularity::kCachelib, 0},
  };
  for (const Known& k : kKnown) {
    if (k.name != name) continue;
    *spec = {k.popularity, k.theta != 0 ? k.theta : theta};
    return true;
  }
  return false;
}

RankSource::RankSource(const DistributionSpec& spec, uint64_t keys, uint64_t seed)
    : spec_(spec), keys_(keys), random_(seed) {
  if (spec.popularity == Popularity::kUniform || spec.popularity == Popularity::kHotspot) return;
  sums_.resize(keys);
  double sum = 0;
  for (uint64_t i = 0; i < keys; ++i)
    sums_[i] = sum += std::pow(static_cast<double>(i + 1), -spec.theta);
}

uint64_t RankSource::Next() {
  const uint64_t drawn = drawn_++;
  const double u = std::uniform_real_distribution<double>(0, 1)(random_);
  switch (spec_.popularity) {
    case Popularity::kUniform:
      return random_() % keys_;
    case Popularity::kHotspot: {
      const uint64_t hot = std::max<uint64_t>(1, keys_ / 5);
      if (u < 0.8 || hot == keys_) return random_() % hot;
      return hot + random_() % (keys_ - hot);
    }
    default:
      break;
  }
  const auto at = std::upper_bound(sums_.begin(), sums_.end(), u * sums_.back());
  const auto rank = std::min<uint64_t>(keys_ - 1, static_cast<uint64_t>(at - sums_.begin()));
  if (spec_.popularity == Popularity::kLatest) return keys_ - 1 - rank;
  if (spec_.popularity == Popularity::kCachelib)
    return (rank + drawn / 1000 * (keys_ / 1000)) % keys_;
  return rank;
}

Scatter::Scatter(uint64_t keys) : keys_(keys), step_(2'654'435'761 % keys) {
  if (step_ == 0) step_ = 1;
  while (std::gcd(step_, keys_) != 1) ++step_;
}

}  // namespace crest
