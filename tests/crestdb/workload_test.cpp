// The requests, keys and figures of CrestDB's driver: shares of the mixes, shapes of the
// distributions, 30-byte keys that are all different, bytes by pages, percentiles.
#include "load/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "load/distribution.h"
#include "load/latency.h"
#include "load/page_use.h"

namespace crest {
namespace {

constexpr uint64_t kKeys = 10'000;
constexpr size_t kRequests = 200'000;

DistributionSpec Spec(std::string_view name, double theta = 0.99) {
  DistributionSpec spec;
  EXPECT_TRUE(ParseDistribution(name, theta, &spec)) << name;
  return spec;
}

std::vector<uint64_t> CountRanks(std::string_view name, double theta = 0.99) {
  RankSource source(Spec(name, theta), kKeys, 1);
  std::vector<uint64_t> counts(kKeys);
  for (size_t i = 0; i < kRequests; ++i) ++counts.at(source.Next());
  return counts;
}

TEST(Distribution, ZipfianFallsAsItsThetaSays) {
  for (const double theta : {0.5, 0.99, 1.07}) {
    const std::vector<uint64_t> counts = CountRanks("zipfian", theta);
    double all = 0;
    for (uint64_t rank = 1; rank <= kKeys; ++rank) all += std::pow(rank, -theta);
    for (const uint64_t ranks : {1, 10, 1000}) {
      double expected = 0, seen = 0;
      for (uint64_t rank = 1; rank <= ranks; ++rank) {
        expected += std::pow(rank, -theta) / all;
        seen += static_cast<double>(counts[rank - 1]) / kRequests;
      }
      EXPECT_NEAR(seen, expected, 0.01) << theta << ", " << ranks;
    }
  }
}

TEST(Distribution, TwittersClustersHaveTheirOwnThetas) {
  EXPECT_EQ(Spec("twitter").theta, 1.07);
  EXPECT_EQ(Spec("twitter-flat").theta, 0.274);
  EXPECT_GT(CountRanks("twitter")[0], 10 * CountRanks("twitter-flat")[0]);
}

TEST(Distribution, UniformAndHotspot) {
  const std::vector<uint64_t> uniform = CountRanks("uniform");
  EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 3 * kRequests / kKeys);
  const std::vector<uint64_t> hot = CountRanks("hotspot");
  uint64_t first_fifth = 0;
  for (uint64_t rank = 0; rank < kKeys / 5; ++rank) first_fifth += hot[rank];
  EXPECT_NEAR(static_cast<double>(first_fifth) / kRequests, 0.8, 0.01);
}

// What is popular at first is not what is popular at last.
TEST(Distribution, CachelibDrifts) {
  RankSource source(Spec("cachelib"), kKeys, 1);
  const auto most = [&source] {
    std::map<uint64_t, int> counts;
    for (int i = 0; i < 1000; ++i) ++counts[source.Next()];
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  };
  const uint64_t first = most();
  for (int i = 0; i < 20'000; ++i) source.Next();
  EXPECT_NE(most(), first);
}

TEST(Distribution, NoOtherNames) {
  DistributionSpec spec;
  for (const std::string_view name : {"", "zipf", "Zipfian", "twitter2"})
    EXPECT_FALSE(ParseDistribution(name, 0.99, &spec));
}

TEST(Distribution, ScatterIsAPermutation) {
  for (const uint64_t keys : {1, 2, 7, 1000, 65536}) {
    const Scatter scatter(keys);
    std::set<uint64_t> seen;
    for (uint64_t rank = 0; rank < keys; ++rank) {
      EXPECT_LT(scatter(rank), keys);
      seen.insert(scatter(rank));
    }
    EXPECT_EQ(seen.size(), keys);
  }
}

TEST(Workload, MixesAreYcsbs) {
  const std::map<char, std::map<Operation, double>> shares = {
      {'A', {{Operation::kRead, 0.5}, {Operation::kUpdate, 0.5}}},
      {'B', {{Operation::kRead, 0.95}, {Operation::kUpdate, 0.05}}},
      {'C', {{Operation::kRead, 1}}},
      {'D', {{Operation::kRead, 0.95}, {Operation::kInsert, 0.05}}},
      {'E', {{Operation::kScan, 0.95}, {Operation::kInsert, 0.05}}},
      {'F', {{Operation::kRead, 0.5}, {Operation::kReadModifyWrite, 0.5}}},
  };
  for (const auto& [mix, expected] : shares) {
    ASSERT_TRUE(IsMix(mix));
    std::map<Operation, double> seen;
    for (const Request& r : DrawRequests(mix, Spec(DistributionOf(mix)), kKeys, kRequests, 3)) {
      seen[r.operation] += 1.0 / kRequests;
      EXPECT_LT(r.key, kKeys);
      EXPECT_GE(r.length, 1);
      EXPECT_LE(r.length, 100);
    }
    ASSERT_EQ(seen.size(), expected.size()) << mix;
    for (const auto& [operation, share] : expected) EXPECT_NEAR(seen[operation], share, 0.01);
  }
  EXPECT_EQ(DistributionOf('D'), "latest");
  EXPECT_FALSE(IsMix('G'));
}

TEST(Workload, TheSameSeedDrawsTheSame) {
  const auto keys = [](uint64_t seed) {
    std::vector<uint32_t> out;
    for (const Request& r : DrawRequests('A', Spec("zipfian"), kKeys, 1000, seed))
      out.push_back(r.key);
    return out;
  };
  EXPECT_EQ(keys(1), keys(1));
  EXPECT_NE(keys(1), keys(2));
}

TEST(Workload, KeysHave30BytesAndAreDifferent) {
  std::set<std::string> seen;
  for (uint64_t n = 0; n < 50'000; ++n) {
    const KeyText key(n);
    ASSERT_EQ(key.view().size(), 30u);
    ASSERT_TRUE(seen.emplace(key.view()).second) << n;
  }
  // The order of the keys is not that of their numbers.
  EXPECT_NE(*seen.begin(), KeyText(0).view());
}

TEST(Workload, ValuesTellKeyAndVersion) {
  std::string a, b, small;
  FillValue(1, 0, 100, a);
  FillValue(1, 1, 100, b);
  FillValue(1, 0, 3, small);
  EXPECT_EQ(a.size(), 100u);
  EXPECT_NE(a, b);
  EXPECT_EQ(small.size(), 3u);
}

TEST(PageUse, CountsBytesByPages) {
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  PageUse use;
  use.Add(at(0x10000), 1024);
  use.Add(at(0x10400), 1024);        // the same page
  use.Add(at(0x20000 + 4000), 200);  // two pages
  use.Add(nullptr, 10);
  const PageUse::Result r = use.Sum();
  EXPECT_EQ(r.bytes, 2248u);
  EXPECT_EQ(r.pages, 3u);
  EXPECT_NEAR(r.percent, 100.0 * 2248 / (3 * 4096), 1e-9);
  EXPECT_EQ(PageUse().Sum().percent, 0);
}

TEST(Latency, PercentilesAreWithin3Percent) {
  Latency half, all;
  for (uint64_t ns = 1; ns <= 50'000; ++ns) half.Add(ns);
  for (uint64_t ns = 50'001; ns <= 100'000; ++ns) all.Add(ns);
  all.Add(half);
  EXPECT_NEAR(all.Percentile(0.5), 50, 50 * 0.03);
  EXPECT_NEAR(all.Percentile(0.9), 90, 90 * 0.03);
  EXPECT_NEAR(all.Percentile(0.99), 99, 99 * 0.03);
  EXPECT_EQ(Latency().Percentile(0.9), 0);
  Latency slow;
  slow.Add(~uint64_t{0});
  EXPECT_GT(slow.Percentile(0.5), 1e15);
}

}  // namespace
}  // namespace crest
