// Which key a request asks for: popularity by rank, and where the popular keys lie. Sits in the
// driver of CrestDB.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace crest {

// How often each rank is asked for.
//   zipfian   1 / rank^theta; YCSB's theta is 0.99 (Cooper et al., SoCC 2010)
//   uniform   all alike
//   latest    zipfian, the newest key first (YCSB D)
//   hotspot   one key in five gets four requests in five (YCSB's default)
//   twitter   zipfian with theta 1.07, Twitter's cluster 7 as used by OBASE (arXiv 2603.00378)
//   twitter-flat  zipfian with theta 0.274, its cluster 23, from the same source
//   cachelib  zipfian whose ranks drift: a thousandth of the keys changes its rank each drawn
//             thousandth; the churn for which OBASE uses CacheLib's traces, its size is ours
enum class Popularity : uint8_t { kZipfian, kUniform, kLatest, kHotspot, kCachelib };

struct DistributionSpec {
  Popularity popularity = Popularity::kZipfian;
  double theta = 0.99;
};
// False: no such name. theta: taken where the name has none of its own.
bool ParseDistribution(std::string_view name, double theta, DistributionSpec* spec);

// Draws ranks 0 .. keys - 1.
class RankSource {
 public:
  RankSource(const DistributionSpec& spec, uint64_t keys, uint64_t seed);
  uint64_t Next();

 private:
  DistributionSpec spec_;
  uint64_t keys_;
  std::mt19937_64 random_;
  std::vector<double> sums_;  // of the shares, up to each rank
  uint64_t drawn_ = 0;
};

// Spreads neighbouring ranks over all key numbers: a permutation.
class Scatter {
 public:
  explicit Scatter(uint64_t keys);
  uint64_t operator()(uint64_t rank) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(rank) * step_ + keys_ / 3) %
                                 keys_);
  }

 private:
  uint64_t keys_;
  uint64_t step_;
};

}  // namespace crest
