// The sampler's sums, each by weight: who freed, how long it lived, what realloc made of it; and
// the rows, records and intervals behind them. The estimates themselves: sampler_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "profile/sampler.h"
#include "sample_fixture.h"

namespace strata {
namespace {

using test::SampledHeap;
constexpr uintptr_t kBase = SampledHeap::kBase;

TEST(SamplerSums, FreesByOthersCountByWeight) {
  SampledHeap heap(1000);
  ASSERT_TRUE(heap.Sample(kBase, 100, 1));
  ASSERT_TRUE(heap.Sample(kBase + 4096, 5000, 1));
  heap.thread = 2;
  heap.cpu = 5;
  ASSERT_TRUE(heap.Free(kBase));
  heap.thread = 1;
  heap.cpu = 0;
  ASSERT_TRUE(heap.Free(kBase + 4096));
  const Lifetimes l = heap.SumsOf(1).lifetimes;
  const double small = 1 / -std::expm1(-0.1), large = 1 / -std::expm1(-5.0);
  EXPECT_NEAR(l.objects, small + large, 1e-9);
  EXPECT_NEAR(l.other_thread, small, 1e-9);
  EXPECT_NEAR(l.other_cpu, small, 1e-9);
}

// The sums of lives, and the histogram, are by weight too; a clock that went back counts as no
// time.
TEST(SamplerSums, LivesCountByWeight) {
  SampledHeap heap(1000);
  const double weight = 1 / -std::expm1(-0.1);
  ASSERT_TRUE(heap.Sample(kBase, 100, 1));
  heap.now_ns += 2'000'000;
  ASSERT_TRUE(heap.Free(kBase));
  ASSERT_TRUE(heap.Sample(kBase, 100, 1));
  heap.now_ns -= 500'000;
  ASSERT_TRUE(heap.Free(kBase));
  ASSERT_TRUE(heap.Sample(kBase, 100, 1));
  heap.now_ns += 5'000'000;
  ASSERT_TRUE(heap.Free(kBase));
  heap.sampler.VisitRows([&](const SampleRow& row, const SampleSums& s) {
    EXPECT_NEAR(s.lifetimes.sum_ns, weight * 7e6, 1);
    EXPECT_NEAR(s.lifetimes.sum_square, weight * 29e12, 1e3);
    EXPECT_NEAR(s.lifetimes.bytes, weight * 300, 1e-6);
    EXPECT_EQ(s.lifetimes.least_ns, 0u);
    EXPECT_EQ(s.lifetimes.most_ns, 5'000'000u);
    for (const uint64_t ns : {0, 2'000'000, 5'000'000})
      EXPECT_NEAR(row.histogram->weight[LifetimeHistogram::BucketOf(ns)], weight, 1e-9) << ns;
  });
}

TEST(SamplerSums, TheShortestLifeStaysTheShortest) {
  SampledHeap heap(1);
  for (const uint64_t ns : {3000, 1000, 2000}) {
    ASSERT_TRUE(heap.Sample(kBase, 64, 1));
    heap.now_ns += ns;
    ASSERT_TRUE(heap.Free(kBase));
  }
  heap.sampler.VisitRows([&](const SampleRow& row, const SampleSums& s) {
    EXPECT_EQ(s.lifetimes.least_ns, 1000u);
    EXPECT_EQ(s.lifetimes.most_ns, 3000u);
    // Within a bucket, evenly spread, and not beyond what was seen.
    EXPECT_EQ(row.histogram->Quantile(0, 1000, 3000), 1000);
    EXPECT_EQ(row.histogram->Quantile(1, 1000, 3000), 3000);
    const double half = row.histogram->Quantile(0.5, 1000, 3000);
    EXPECT_GT(half, 1500);
    EXPECT_LT(half, 2300);
  });
}

// A block that grows while its chance rises: it stands for fewer others, each with all its bytes.
TEST(SamplerSums, AWeightThatFallsTakesBytesAway) {
  SampledHeap heap(1000);
  ASSERT_TRUE(heap.Sample(kBase, 100, 1));
  ASSERT_TRUE(heap.sampler.Move(kBase, kBase, 110, 5));
  const double weight = 1 / -std::expm1(-5.1);
  const SampleSums s = heap.SumsOf(1);
  EXPECT_NEAR(s.allocated_objects, weight, 1e-9);
  EXPECT_NEAR(s.allocated_bytes, weight * 110, 1e-6);
  EXPECT_NEAR(s.live_bytes, weight * 110, 1e-6);
}

// What realloc moved has its new size, and is in the row of that size from then on.
TEST(SamplerSums, AMovedBlockHasItsNewSizeAndRow) {
  SampledHeap heap(1);
  ASSERT_TRUE(heap.Sample(kBase, 1000, 1));
  ASSERT_TRUE(heap.Resize(kBase, kBase + 64 * kPageSize, 1000, 5000, 1));
  size_t rows = 0;
  heap.sampler.VisitRows([&](const SampleRow& row, const SampleSums& s) {
    ++rows;
    EXPECT_NEAR(s.live_bytes, row.bytes >= 5000 ? 5000 : 0, 1e-6);
    EXPECT_NEAR(s.live_objects, row.bytes >= 5000 ? 1 : 0, 1e-9);
  });
  EXPECT_EQ(rows, 2u);
  heap.sampler.VisitLive([&](const LiveSample& s) { EXPECT_EQ(s.size, 5000u); });
  EXPECT_EQ(heap.sampler.Stats().peak_bytes_estimate, 5000u);  // growth is a peak, too
  ASSERT_TRUE(heap.Resize(kBase + 64 * kPageSize, kBase, 5000, 700, 1));
  heap.sampler.VisitLive([&](const LiveSample& s) { EXPECT_EQ(s.size, 700u); });
  ASSERT_TRUE(heap.Free(kBase));
  EXPECT_EQ(heap.sampler.Stats().live_bytes_estimate, 0u);
}

TEST(SamplerSums, LargeSizesShareRowsByEighthsOfADoubling) {
  SampledHeap heap(1);
  for (size_t size = kMaxClassSize + 1; size < kMaxClassSize * 16; size += size / 20)
    ASSERT_TRUE(heap.Sample(kBase + size * 64, size, 1));
  size_t rows = 0;
  heap.sampler.VisitRows([&](const SampleRow& row, const SampleSums& s) {
    ++rows;
    EXPECT_GE(static_cast<double>(row.bytes), s.live_bytes / s.live_objects - 1e-6);
    EXPECT_LE(static_cast<double>(row.bytes), s.live_bytes / s.live_objects * 1.125);
  });
  EXPECT_GE(rows, 31u);
  EXPECT_LE(rows, 33u);
}

TEST(SamplerSums, IntervalsHaveAnEndAndEachIsANewEpoch) {
  SampledHeap heap(1);
  heap.sampler.SetInterval(SIZE_MAX);
  EXPECT_EQ(heap.sampler.rate().interval, kMostSampleInterval);
  const uint32_t epoch = heap.sampler.rate().epoch;
  heap.sampler.SetInterval(kMostSampleInterval);
  EXPECT_EQ(heap.sampler.rate().interval, kMostSampleInterval);
  EXPECT_EQ(heap.sampler.rate().epoch, epoch + 1);
}

// Records of samples that went are used again: the memory is that of the most at once.
TEST(SamplerSums, RecordsAreUsedAgain) {
  SampledHeap heap(1);
  ASSERT_TRUE(heap.Sample(kBase, 64, 1));
  const size_t before = heap.arena.used_bytes();
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(heap.Free(kBase));
    ASSERT_TRUE(heap.Sample(kBase, 64, 1));
  }
  EXPECT_LE(heap.arena.used_bytes(), before + sizeof(LifetimeHistogram));
}

}  // namespace
}  // namespace strata
