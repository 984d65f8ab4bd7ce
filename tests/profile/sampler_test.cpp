// The table of samples: estimates without bias (sizes, realloc, changed intervals), lifetimes, the
// peak, page flags, memory that runs out, and a simple model that it has to agree with.
#include "profile/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "sample_fixture.h"

namespace strata {
namespace {

using test::SampledHeap;
constexpr uintptr_t kBase = SampledHeap::kBase;
const uintptr_t kOthers = reinterpret_cast<uintptr_t>(strata_stacks_beyond_the_table) + 1;

TEST(Sampler, FlagsThePageWhileASampleLivesThere) {
  SampledHeap heap(1);
  const uintptr_t a = kBase + 5 * kPageSize, b = a + 64, other = a + 128;
  EXPECT_FALSE(heap.Free(a));
  ASSERT_TRUE(heap.Sample(a, 64, 1));
  ASSERT_TRUE(heap.Sample(b, 64, 1));
  EXPECT_TRUE(heap.IsFlagged(a));
  EXPECT_EQ(heap.pages.ClassOf(PageId(5)), static_cast<SizeClass>(7));  // as before, masked
  EXPECT_FALSE(heap.IsFlagged(a + kPageSize));
  EXPECT_TRUE(heap.sampler.MayHold(a));
  EXPECT_FALSE(heap.sampler.MayHold(other));
  EXPECT_FALSE(heap.Free(other));
  EXPECT_TRUE(heap.Free(a));
  EXPECT_FALSE(heap.Free(a));
  EXPECT_TRUE(heap.IsFlagged(b));
  EXPECT_TRUE(heap.Free(b));
  EXPECT_FALSE(heap.IsFlagged(b));
  const SamplerStats s = heap.sampler.Stats();
  EXPECT_EQ(s.samples, 2u);
  EXPECT_EQ(s.live_samples, 0u);
  EXPECT_EQ(s.contexts, 1u);
  EXPECT_EQ(s.dropped, 0u);
}

TEST(Sampler, APlaceThatWasMetHasARowAndNoSample) {
  SampledHeap heap(1);
  const uintptr_t stack[] = {0x10, 0x20};
  heap.sampler.NotePlace({7, {3}}, 100, stack, 2);
  heap.sampler.NotePlace({8, {3}}, 100, stack, 2);
  EXPECT_EQ(heap.sampler.rows(), 1u);
  EXPECT_EQ(heap.sampler.Stats().samples, 0u);
  heap.sampler.VisitRows([](const SampleRow& row, const SampleSums& sums) {
    EXPECT_EQ(row.site.key, 7u);
    EXPECT_EQ(row.bytes, InfoOf(ClassOfSize(100)).size);
    EXPECT_EQ(sums.samples, 0u);
  });
}

// A guarded block lies outside of the heap, where no entry tells of its page.
TEST(Sampler, ABlockOutsideOfTheHeapFlagsNoPage) {
  SampledHeap heap(1);
  const uintptr_t behind = kBase + SampledHeap::kPages * kPageSize, inside = kBase + kPageSize;
  for (const uintptr_t block : {behind, behind + (uintptr_t{1} << 40), kBase - kPageSize}) {
    ASSERT_TRUE(heap.Sample(block, 1 << 20, 1));
    EXPECT_TRUE(heap.sampler.MayHold(block));
    EXPECT_TRUE(heap.Resize(block, inside, 1 << 20, 1 << 20, 1));
    EXPECT_TRUE(heap.IsFlagged(inside));
    EXPECT_TRUE(heap.Resize(inside, block, 1 << 20, 1 << 20, 1));
    EXPECT_FALSE(heap.IsFlagged(inside));
    EXPECT_TRUE(heap.Free(block));
    EXPECT_FALSE(heap.sampler.MayHold(block));
  }
  EXPECT_EQ(heap.sampler.Stats().live_samples, 0u);
}

// The estimates of a known mix: live bytes of each site within 5 % at 10,000 samples a site.
TEST(Sampler, LiveBytesOfEachSiteAreUnbiased) {
  struct Site {
    size_t size;
    size_t objects;
  };
  constexpr size_t kInterval = 4096;
  // Each site allocates 10,000 intervals, half of it freed.
  const Site sites[] = {
      {16, 5'120'000}, {100, 819'200}, {1000, 81'920}, {5000, 16'384}, {40'000, 2'048 * 5}};
  SampledHeap heap(kInterval, 42);
  uintptr_t next = kBase;
  std::map<uintptr_t, int> sampled;
  for (uintptr_t s = 0; s < std::size(sites); ++s) {
    for (size_t i = 0; i < sites[s].objects; ++i) {
      if (!heap.Allocate(next, sites[s].size, s)) continue;
      if (i % 2 == 0) {
        ASSERT_TRUE(heap.Free(next));
      } else {
        next += 16;  // live ones keep their address
      }
    }
  }
  for (uintptr_t s = 0; s < std::size(sites); ++s) {
    const SampleSums sums = heap.SumsOf(s);
    const double truth = static_cast<double>(sites[s].size * sites[s].objects);
    EXPECT_NEAR(sums.live_bytes / (truth / 2), 1, 0.05) << sites[s].size;
    EXPECT_NEAR(sums.allocated_bytes / truth, 1, 0.05) << sites[s].size;
    EXPECT_NEAR(sums.live_objects / (static_cast<double>(sites[s].objects) / 2), 1, 0.05);
    EXPECT_NEAR(sums.lifetimes.objects / (static_cast<double>(sites[s].objects) / 2), 1, 0.05);
  }
}

// The mean over many heaps of what is estimated for one small block, with a great interval: a bias
// that noise hides in one run shows here.
TEST(Sampler, SmallBlocksUnderAGreatIntervalAreUnbiased) {
  double sum = 0;
  constexpr int kRuns = 200'000;
  SampledHeap heap(1 << 16, 7);
  for (int i = 0; i < kRuns; ++i) {
    if (!heap.Allocate(kBase, 1000, 1)) continue;
    sum += heap.SumsOf(1).live_bytes;
    heap.Free(kBase);
  }
  // One in 66 is sampled: the deviation of the mean is about 1.8 %.
  EXPECT_NEAR(sum / kRuns / 1000, 1, 0.06);
}

TEST(Sampler, GrowthByReallocIsUnbiasedAndKeepsTheFirstSite) {
  constexpr size_t kInterval = 1 << 14;
  SampledHeap heap(kInterval, 9);
  double live = 0, allocated = 0, objects = 0, kept = 0, moved_site = 0;
  constexpr int kBlocks = 30'000;
  uintptr_t next = kBase;
  for (int i = 0; i < kBlocks; ++i) {
    uintptr_t at = next;
    bool first = heap.Allocate(at, 512, 1);
    for (size_t size = 512; size < 8192; size *= 2) {
      const uintptr_t to = size % 1024 == 0 ? at : at + 16;  // in place or moved
      const bool is = heap.Resize(at, to, size, size * 2, 2);
      EXPECT_GE(is, first);  // a sample stays one
      first = is;
      at = to;
    }
    if (first) next += 64;
  }
  for (const uintptr_t site : {1, 2}) {
    const SampleSums s = heap.SumsOf(site);
    live += s.live_bytes;
    allocated += s.allocated_bytes;
    objects += s.live_objects;
    (site == 1 ? kept : moved_site) = s.live_objects;
  }
  EXPECT_NEAR(live / (kBlocks * 8192.0), 1, 0.05);
  EXPECT_NEAR(allocated / (kBlocks * 8192.0), 1, 0.05);
  EXPECT_NEAR(objects / kBlocks, 1, 0.05);
  // Of the samples, those that were due in the first 512 bytes have the first site.
  const double first = -std::expm1(-512.0 / kInterval), all = -std::expm1(-8192.0 / kInterval);
  EXPECT_NEAR(kept / objects, first / all, 0.02);
  EXPECT_GT(moved_site, 0);
}

// What a window shows is the difference of each row, which is never below zero.
TEST(Sampler, GrowthIsAllThatAWindowSeesOfAnOldBlock) {
  SampledHeap heap(1000);
  const auto rows = [&] {
    std::map<size_t, std::pair<double, double>> all;
    heap.sampler.VisitRows([&](const SampleRow& row, const SampleSums& s) {
      all[row.number] = {s.allocated_objects, s.allocated_bytes};
    });
    return all;
  };
  ASSERT_TRUE(heap.Sample(kBase, 3000, 1));
  auto before = rows();
  const double first = before[0].second;
  ASSERT_TRUE(heap.Resize(kBase, kBase, 3000, 5000, 2));
  ASSERT_TRUE(heap.Resize(kBase, kBase, 5000, 9000, 2));
  double objects = 0, bytes = 0;
  for (const auto& [number, sums] : rows()) {
    EXPECT_GE(sums.second, before[number].second);
    objects += sums.first;
    bytes += sums.second;
    EXPECT_NEAR(sums.first, number == 0 ? 1 / -std::expm1(-9.0) : 0, 1e-9);
  }
  EXPECT_NEAR(bytes, 9000 / -std::expm1(-9.0), 1e-6);
  EXPECT_NEAR(bytes - first, 6000, 200);
  EXPECT_NEAR(objects, 1 / -std::expm1(-9.0), 1e-9);
}

TEST(Sampler, ShrinkingKeepsTheWeightAndCountsTheBytesLeft) {
  SampledHeap heap(1000);
  ASSERT_TRUE(heap.Sample(kBase, 3000, 1));
  const double weight = heap.SumsOf(1).live_objects;
  EXPECT_NEAR(weight, 1 / -std::expm1(-3.0), 1e-9);
  ASSERT_TRUE(heap.Resize(kBase, kBase + 3 * kPageSize, 3000, 100, 2));
  EXPECT_FALSE(heap.IsFlagged(kBase));
  EXPECT_TRUE(heap.IsFlagged(kBase + 3 * kPageSize));
  const SampleSums s = heap.SumsOf(1);
  EXPECT_NEAR(s.live_objects, weight, 1e-9);
  EXPECT_NEAR(s.live_bytes, weight * 100, 1e-6);
  EXPECT_NEAR(s.allocated_bytes, weight * 3000, 1e-6);
  EXPECT_FALSE(heap.Free(kBase));
  heap.now_ns += 500;
  ASSERT_TRUE(heap.Free(kBase + 3 * kPageSize));
  EXPECT_NEAR(heap.SumsOf(1).live_bytes, 0, 1e-6);
  EXPECT_NEAR(heap.SumsOf(1).lifetimes.objects, weight, 1e-9);
}

TEST(Sampler, PeakIsTheLiveSetAtTheHighestPoint) {
  SampledHeap heap(1);  // every block stands for itself
  ASSERT_TRUE(heap.Sample(kBase, 1000, 1));
  ASSERT_TRUE(heap.Sample(kBase + 8192, 5000, 2));  // 6000: a peak
  ASSERT_TRUE(heap.Free(kBase + 8192));
  ASSERT_TRUE(heap.Sample(kBase + 8192, 3000, 1));  // 4000
  EXPECT_NEAR(heap.SumsOf(1).peak_bytes, 1000, 1e-6);
  EXPECT_NEAR(heap.SumsOf(2).peak_bytes, 5000, 1e-6);
  ASSERT_TRUE(heap.Sample(kBase + 16384, 2500, 3));  // 6500: the next
  EXPECT_NEAR(heap.SumsOf(1).peak_bytes, 4000, 1e-6);
  EXPECT_NEAR(heap.SumsOf(2).peak_bytes, 0, 1e-6);
  ASSERT_TRUE(heap.Free(kBase));
  ASSERT_TRUE(heap.Free(kBase + 16384));
  EXPECT_NEAR(heap.SumsOf(1).peak_bytes, 4000, 1e-6);
  EXPECT_NEAR(heap.SumsOf(3).peak_bytes, 2500, 1e-6);
  EXPECT_EQ(heap.SumsOf(1).peak_samples, 2);
  EXPECT_EQ(heap.SumsOf(1).live_samples, 1);
  EXPECT_EQ(heap.SumsOf(2).live_samples, 0);
  EXPECT_EQ(heap.sampler.Stats().peak_bytes_estimate, 6500u);
}

TEST(Sampler, NotesWhoFreed) {
  SampledHeap heap(1);
  for (uintptr_t i = 0; i < 10; ++i) ASSERT_TRUE(heap.Sample(kBase + i * 64, 64, 1));
  for (uintptr_t i = 0; i < 10; ++i) {
    heap.thread = i < 4 ? 2 : 1;
    heap.cpu = i < 7 ? 1 : 0;
    ASSERT_TRUE(heap.Free(kBase + i * 64));
  }
  const Lifetimes l = heap.SumsOf(1).lifetimes;
  EXPECT_NEAR(l.other_thread / l.objects, 0.4, 1e-9);
  EXPECT_NEAR(l.other_cpu / l.objects, 0.7, 1e-9);
}

// The 95th percentile within one decade of the truth for at least 95 % of sites with 100 samples.
TEST(Sampler, LifetimeQuantilesOfAHundredSamples) {
  std::mt19937_64 random(11);
  int sites = 0, good = 0, good_median = 0;
  for (uintptr_t site = 0; site < 300; ++site) {
    SampledHeap heap(1);
    // Log-normal about 1 µs to 1000 s, from narrow to two decades wide.
    const double mu = std::uniform_real_distribution<>(7, 27)(random);
    const double sigma = std::uniform_real_distribution<>(0.1, 4)(random);
    std::lognormal_distribution<> lifetime(mu, sigma);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(heap.Sample(kBase, 64, site));
      heap.now_ns += static_cast<uint64_t>(lifetime(random));
      ASSERT_TRUE(heap.Free(kBase));
    }
    heap.sampler.VisitRows([&](const SampleRow& row, const SampleSums& s) {
      const auto least = static_cast<double>(s.lifetimes.least_ns);
      const auto most = static_cast<double>(s.lifetimes.most_ns);
      const double p95 = row.histogram->Quantile(0.95, least, most);
      const double truth = std::exp(mu + 1.6449 * sigma);
      ++sites;
      good += std::abs(std::log10(p95 / truth)) < 1;
      good_median +=
          std::abs(std::log10(row.histogram->Quantile(0.5, least, most) / std::exp(mu))) < 1;
    });
  }
  EXPECT_EQ(sites, 300);
  EXPECT_GE(good, 285);
  EXPECT_GE(good_median, 285);
}

TEST(Sampler, HistogramBucketsMeetTheirBounds) {
  for (size_t b = 0; b + 1 < LifetimeHistogram::kBuckets; ++b) {
    const double from = LifetimeHistogram::BoundOf(b), to = LifetimeHistogram::BoundOf(b + 1);
    EXPECT_LT(to / from, 1.68);
    EXPECT_EQ(LifetimeHistogram::BucketOf(static_cast<uint64_t>(std::ceil(from))), b);
    EXPECT_EQ(LifetimeHistogram::BucketOf(static_cast<uint64_t>(std::ceil(to)) - 1), b);
  }
  EXPECT_EQ(LifetimeHistogram::BucketOf(0), 0u);
  EXPECT_EQ(LifetimeHistogram::BucketOf(UINT64_MAX), LifetimeHistogram::kBuckets - 1);
}

TEST(Sampler, ADecadeBeginsWithABucket) {
  for (uint64_t decade = 10'000; decade <= 100'000'000'000'000; decade *= 10) {
    const size_t b = LifetimeHistogram::BucketOf(decade);
    EXPECT_EQ(LifetimeHistogram::BoundOf(b), static_cast<double>(decade));
    EXPECT_EQ(LifetimeHistogram::BucketOf(decade - 1), b - 1);
  }
  // 96 % die within 10 ms, and few after: the 95th percentile is below.
  LifetimeHistogram histogram;
  for (const uint64_t ns : {9'000'000, 11'000'000})
    histogram.weight[LifetimeHistogram::BucketOf(ns)] += ns < 10'000'000 ? 96 : 4;
  EXPECT_LT(histogram.Quantile(0.95, 9e6, 11e6), 10e6);
}

TEST(Sampler, ChangedIntervalWeighsOldAndNewSamplesEachByItsOwn) {
  SampledHeap heap(2048, 5);
  uintptr_t next = kBase;
  const auto allocate = [&](int n) {
    for (int i = 0; i < n; ++i) next += heap.Allocate(next, 256, 1) ? 16 : 0;
  };
  allocate(200'000);
  heap.sampler.SetInterval(16'384);
  allocate(1'600'000);
  EXPECT_NEAR(heap.SumsOf(1).live_bytes / (1'800'000 * 256.0), 1, 0.03);
  heap.sampler.SetInterval(0);
  const uint64_t before = heap.sampler.Stats().samples;
  allocate(400'000);
  EXPECT_EQ(heap.sampler.Stats().samples, before);
}

TEST(Sampler, WithoutMemorySamplesAreDroppedAndNothingElseHappens) {
  test::g_arena_chunks_left = 0;
  {
    SampledHeap heap(1);
    EXPECT_FALSE(heap.Sample(kBase, 64, 1));
    EXPECT_FALSE(heap.IsFlagged(kBase));
    EXPECT_FALSE(heap.Free(kBase));
    EXPECT_FALSE(heap.sampler.Move(kBase, kBase + 64, 10, 1));
    EXPECT_EQ(heap.sampler.Stats().dropped, 1u);
  }
  for (long chunks = 1; chunks < 6; ++chunks) {
    test::g_arena_chunks_left = chunks;
    SampledHeap heap(1);
    std::map<uintptr_t, bool> taken;
    for (uintptr_t i = 0; i < 6000; ++i)
      taken[kBase + i * 64] = heap.Sample(kBase + i * 64, 64 + i % 7 * 100, i);
    for (const auto& [address, sampled] : taken) ASSERT_EQ(heap.Free(address), sampled);
    const SamplerStats s = heap.sampler.Stats();
    EXPECT_EQ(s.samples, 6000u);
    EXPECT_EQ(s.live_samples, 0u);
    EXPECT_EQ(s.live_bytes_estimate, 0u);
  }
  test::g_arena_chunks_left = -1;
}

TEST(Sampler, ASignalHandlerOfTheHolderDoesNotWait) {
  SampledHeap heap(1);
  ASSERT_TRUE(heap.Sample(kBase, 64, 1));
  {
    LockHolder hold(heap.sampler.lock());
    EXPECT_FALSE(heap.Sample(kBase + 64, 64, 1));
    EXPECT_FALSE(heap.Resize(kBase, kBase + 128, 64, 64, 1));
    EXPECT_FALSE(heap.Free(kBase));
  }
  EXPECT_EQ(heap.sampler.Stats().live_samples, 1u);
  ASSERT_TRUE(heap.Sample(kBase, 64, 2));  // the address is another block's now
  EXPECT_TRUE(heap.Free(kBase));
  EXPECT_TRUE(heap.Free(kBase));  // and then the one that was missed
  EXPECT_EQ(heap.sampler.Stats().live_samples, 0u);
  EXPECT_FALSE(heap.IsFlagged(kBase));
}

TEST(Sampler, ContextsAreBounded) {
  SampledHeap heap(1);
  for (uintptr_t i = 0; i < ContextTable::kMostContexts + 100; ++i) {
    EXPECT_EQ(heap.sampler.StacksAreScarce(), i >= ContextTable::kMostContexts / 2);
    heap.Sample(kBase, 64, i);
    heap.Free(kBase);
  }
  EXPECT_EQ(heap.sampler.Stats().contexts, ContextTable::kMostContexts);
  EXPECT_EQ(heap.sampler.Stats().dropped, 0u);
  EXPECT_EQ(heap.SumsOf(5).samples, 1u);
  EXPECT_TRUE(heap.Sample(kBase, 64, 5));  // a known stack still counts by itself
  EXPECT_EQ(heap.SumsOf(5).samples, 2u);
  EXPECT_EQ(heap.SumsOf(kOthers).samples, 101u);
  EXPECT_NEAR(heap.SumsOf(kOthers).allocated_bytes, 101 * 64, 1e-6);
}

TEST(Sampler, RowsAreBounded) {
  SampledHeap heap(1);
  uint64_t taken = 0;
  for (uintptr_t site = 0; site < 400; ++site) {
    for (size_t size = 32; size < kMaxClassSize * 8; size += size / 8 + 8, ++taken) {
      ASSERT_TRUE(heap.Sample(kBase, size, site));
      ASSERT_TRUE(heap.Free(kBase));
    }
  }
  ASSERT_GT(taken, Sampler::kMostRows);
  EXPECT_LE(heap.sampler.rows(), Sampler::kMostRows);
  EXPECT_EQ(heap.sampler.Stats().dropped, 0u);
  EXPECT_GT(heap.SumsOf(kOthers).samples, taken - Sampler::kMostRows);
}

// Against a map: random allocations, frees, moves and interval changes over few pages.
TEST(Sampler, DoesAsASimpleModel) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    SampledHeap heap(1 + random() % 5000, seed);
    struct Block {
      size_t size;
      uintptr_t site;
      double expected;
    };
    std::map<uintptr_t, Block> model;
    const auto pick = [&] { return kBase + random() % 400 * 128; };
    for (int step = 0; step < 5000; ++step) {
      const uintptr_t at = pick();
      const auto found = model.find(at);
      const auto interval = static_cast<double>(heap.sampler.rate().interval);
      heap.now_ns += random() % 1000;
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          if (found == model.end()) {
            const size_t size = 1 + random() % (random() % 10 == 0 ? 3'000'000 : 5000);
            const uintptr_t site = random() % 9;
            ASSERT_TRUE(heap.Sample(at, size, site));
            model[at] = {size, site, static_cast<double>(size) / interval};
          }
          break;
        case 3:
        case 4:
          ASSERT_EQ(heap.Free(at), found != model.end());
          model.erase(at);
          break;
        case 5:
        case 6: {
          const uintptr_t to = random() % 2 == 0 ? at : pick();
          if (to != at && model.contains(to)) break;
          const size_t size = 1 + random() % 10'000;
          ASSERT_EQ(heap.sampler.Move(at, to, size, 0.5), found != model.end());
          if (found == model.end()) break;
          Block block = found->second;
          model.erase(at);
          block.size = size;
          block.expected += 0.5;
          model[to] = block;
          break;
        }
        default:
          if (random() % 50 == 0) heap.sampler.SetInterval(1 + random() % 5000);
      }
    }
    std::map<uintptr_t, double> live;
    for (const auto& [address, block] : model) {
      live[block.site] += static_cast<double>(block.size) / -std::expm1(-block.expected);
      EXPECT_TRUE(heap.IsFlagged(address));
      EXPECT_TRUE(heap.sampler.MayHold(address));
    }
    for (uintptr_t page = 0; page < 8; ++page) {
      const auto from = model.lower_bound(kBase + page * kPageSize);
      const bool any = from != model.end() && from->first < kBase + (page + 1) * kPageSize;
      EXPECT_EQ(heap.IsFlagged(kBase + page * kPageSize), any);
    }
    for (uintptr_t site = 0; site < 9; ++site) {
      EXPECT_NEAR(heap.SumsOf(site).live_bytes, live[site], 1 + 1e-6 * live[site])
          << "seed " << seed;
    }
    size_t seen = 0;
    heap.sampler.VisitLive([&](const LiveSample& s) {
      ++seen;
      const auto found = model.find(s.address.load());
      ASSERT_NE(found, model.end());
      EXPECT_EQ(found->second.size, s.size);
    });
    EXPECT_EQ(seen, model.size());
    EXPECT_EQ(heap.sampler.Stats().live_samples, model.size());
  }
}

}  // namespace
}  // namespace strata
