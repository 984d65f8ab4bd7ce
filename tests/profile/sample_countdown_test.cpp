// The countdown to the next sample: the rate is what was asked whatever the sizes, changes of the
// interval are seen within a stretch, and the arithmetic agrees with libm.
#include "profile/sample_countdown.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace strata {
namespace {

TEST(SampleMath, LogarithmAndChanceAgreeWithLibm) {
  for (double x = 1e-18; x < 1e18; x *= 1.37) {
    EXPECT_NEAR(NaturalLog(x), std::log(x), 1e-12 * (1 + std::abs(std::log(x)))) << x;
  }
  for (double x = 1e-12; x < 100; x *= 1.31) {
    EXPECT_NEAR(ChanceOfSample(x) / -std::expm1(-x), 1, 1e-9) << x;
  }
  EXPECT_EQ(ChanceOfSample(0), 0);
}

bool Count(SampleCountdown& c, size_t bytes, SampleRate rate) {
  if (c.stretch > bytes) {
    c.stretch -= bytes;
    return false;
  }
  return c.Spend(bytes, rate, Stretches::kAllowed);
}

TEST(SampleCountdown, TakesOneSampleInSoManyBytesWhateverTheSizes) {
  constexpr size_t kInterval = 1 << 16;
  for (const size_t size :
       {size_t{8}, size_t{100}, size_t{1000}, size_t{70'000}, size_t{1} << 20}) {
    SampleCountdown c;
    c.Seed(size);
    constexpr int kWanted = 5'000;
    const double chance = -std::expm1(-static_cast<double>(size) / kInterval);
    const auto tries = static_cast<size_t>(kWanted / chance);
    double taken = 0;
    for (size_t i = 0; i < tries; ++i) taken += Count(c, size, {kInterval, 1});
    // Four standard deviations of a binomial count.
    EXPECT_NEAR(taken, kWanted, 4 * std::sqrt(kWanted) + 1) << size;
  }
}

TEST(SampleCountdown, StretchNeverReachesAboveTheLargestClass) {
  SampleCountdown c;
  c.Seed(3);
  for (int i = 0; i < 100'000; ++i) {
    Count(c, static_cast<size_t>(i % 5000), {size_t{1} << 40, 1});
    // So the one compare of the fast path sends every greater size to the slow path.
    ASSERT_LE(c.stretch, kMaxClassSize);
  }
}

TEST(SampleCountdown, NothingIsSampledWhenOffAndChangesAreSeenWithinAStretch) {
  SampleCountdown c;
  c.Seed(4);
  for (int i = 0; i < 100'000; ++i) ASSERT_FALSE(Count(c, 5000, {0, 1}));
  // Switched on: after at most one stretch, samples come at the new rate.
  size_t bytes = 0;
  while (c.epoch != 2) {
    Count(c, 64, {4096, 2});
    bytes += 64;
    ASSERT_LE(bytes, SampleCountdown::kMostStretch + 64);
  }
  double taken = 0;
  for (int i = 0; i < 1'000'000; ++i) taken += Count(c, 64, {4096, 2});
  EXPECT_NEAR(taken, 1e6 * -std::expm1(-64.0 / 4096), 600);
  // And off again.
  bytes = 0;
  while (c.epoch != 3) {
    Count(c, 64, {0, 3});
    bytes += 64;
    ASSERT_LE(bytes, SampleCountdown::kMostStretch + 64);
  }
  for (int i = 0; i < 100'000; ++i) ASSERT_FALSE(Count(c, 64, {0, 3}));
}

TEST(SampleCountdown, WithoutStretchesEveryAllocationIsSeen) {
  SampleCountdown c;
  c.Seed(5);
  double taken = 0;
  for (int i = 0; i < 400'000; ++i) {
    taken += c.Spend(100, {10'000, 1}, Stretches::kNone);
    ASSERT_EQ(c.stretch, 0u);
  }
  EXPECT_NEAR(taken, 4e5 * -std::expm1(-0.01), 260);
}

// Whoever asks first whether anything is due, and only then spends, draws the same samples.
TEST(SampleCountdown, AskingFirstWhetherASampleIsDueChangesNone) {
  SampleCountdown a, b;
  a.Seed(12);
  b.Seed(12);
  int due = 0, quiet = 0;
  for (uint32_t i = 0; i < 50'000; ++i) {
    const size_t bytes = 5'000 + i * 7'919 % 200'000;
    constexpr size_t kIntervals[] = {1 << 20, 1 << 19, 1 << 20, 0, 4 << 20};
    const SampleRate rate{kIntervals[i / 10'000], 1 + i / 10'000};
    const bool of_a = Count(a, bytes, rate);
    bool of_b = false;
    if (b.stretch > bytes) {
      b.stretch -= bytes;
    } else if (b.SpendIfNothingDue(bytes, rate, Stretches::kAllowed)) {
      ++quiet;
    } else {
      of_b = b.Spend(bytes, rate, Stretches::kAllowed);
    }
    ASSERT_EQ(of_a, of_b) << i;
    ASSERT_EQ(a.stretch, b.stretch) << i;
    due += of_b;
  }
  EXPECT_GT(due, 1'000);
  EXPECT_GT(quiet, 10'000);
}

TEST(SampleCountdown, NothingIsCountedWhereSomethingIsDue) {
  SampleCountdown c;
  c.Seed(13);
  // Not drawn for this rate yet.
  EXPECT_FALSE(c.SpendIfNothingDue(1, {kMostSampleInterval, 1}, Stretches::kAllowed));
  EXPECT_EQ(c.stretch, 0u);
  c.Spend(1, {1000, 1}, Stretches::kAllowed);
  const size_t before = c.stretch;
  EXPECT_FALSE(c.SpendIfNothingDue(size_t{1} << 20, {1000, 1}, Stretches::kAllowed));
  EXPECT_EQ(c.stretch, before);
  // The sample is in the last byte.
  EXPECT_FALSE(c.SpendIfNothingDue(before, {1000, 1}, Stretches::kAllowed));
  EXPECT_TRUE(c.SpendIfNothingDue(before - 1, {1000, 1}, Stretches::kAllowed));
  EXPECT_EQ(c.stretch, 1u);
}

TEST(SampleCountdown, HugeRequestsAndIntervalsDoNotWrap) {
  SampleCountdown c;
  c.Seed(6);
  EXPECT_TRUE(c.Spend(SIZE_MAX, {1, 1}, Stretches::kAllowed));
  EXPECT_TRUE(c.Spend(SIZE_MAX, {kMostSampleInterval, 2}, Stretches::kAllowed));
  EXPECT_FALSE(c.Spend(SIZE_MAX, {0, 3}, Stretches::kAllowed));
}

// A thread whose samples come far too fast draws from longer intervals, and the weights of what it
// samples still add up to what it allocated.
TEST(SampleCountdown, SamplesThatComeTooFastAreThinnedAndStandForMore) {
  constexpr size_t kInterval = size_t{2} << 20;
  constexpr size_t kSize = size_t{1} << 20;
  constexpr SampleRate kRate{kInterval, 1};
  SampleCountdown c;
  c.Seed(8);
  uint64_t now_ns = 0;
  const auto run = [&](uint64_t ns_each, int blocks, double* bytes) {
    int samples = 0;
    for (int i = 0; i < blocks; ++i) {
      now_ns += ns_each;
      if (!Count(c, kSize, kRate)) continue;
      ++samples;
      *bytes += kSize / ChanceOfSample(kSize / c.IntervalOfSample(kRate));
      c.NoteSample(now_ns, kRate);
    }
    return samples;
  };
  double bytes = 0;
  // A block every 300 ns: a second of it.
  const int fast = run(300, 3'333'333, &bytes);
  EXPECT_LT(fast, 15'000);
  EXPECT_GT(fast, 1'000);
  EXPECT_NEAR(bytes / (3'333'333.0 * kSize), 1, 0.05);
  EXPECT_GT(c.IntervalInForce(kRate), 50.0 * kInterval);
  // One every 10 ms: after a while the interval is what was asked for.
  bytes = 0;
  run(10'000'000, 60'000, &bytes);
  EXPECT_EQ(c.IntervalInForce(kRate), static_cast<double>(kInterval));
  bytes = 0;
  run(10'000'000, 20'000, &bytes);
  EXPECT_NEAR(bytes / (20'000.0 * kSize), 1, 0.05);
}

TEST(SampleCountdown, ShortIntervalsAreTakenAtTheirWord) {
  constexpr SampleRate kRate{4096, 1};
  SampleCountdown c;
  c.Seed(9);
  for (int i = 0; i < 10'000; ++i) {
    if (Count(c, 4096, kRate)) c.NoteSample(1, kRate);
    ASSERT_EQ(c.IntervalInForce(kRate), 4096.0);
  }
}

// Thinning goes up where samples are less than 100 us apart, down where they are more than 400, by
// one power of two each, and stays between.
class Thinning : public testing::Test {
 protected:
  static constexpr size_t kInterval = size_t{2} << 20;  // the least that is thinned
  static constexpr uint64_t kUnitNs = 25'000;

  Thinning() {
    c_.Seed(12);
    EXPECT_TRUE(c_.Spend(SIZE_MAX, rate_, Stretches::kAllowed));
    c_.NoteSample(now_ns_, rate_);
  }
  // A sample after so many units of time, and then the next point is drawn.
  void SampleAfter(uint64_t units) {
    now_ns_ += units * kUnitNs;
    c_.NoteSample(now_ns_, rate_);
    EXPECT_TRUE(c_.Spend(SIZE_MAX, rate_, Stretches::kAllowed));
  }
  double InForce() { return c_.IntervalInForce(rate_) / static_cast<double>(rate_.interval); }
  double OfSample() { return c_.IntervalOfSample(rate_) / static_cast<double>(rate_.interval); }

  SampleRate rate_{kInterval, 1};
  SampleCountdown c_;
  uint64_t now_ns_ = 1'000'000'000;
};

TEST_F(Thinning, GoesUpByOneToItsEndAndDownAgain) {
  SampleAfter(3);
  for (const uint64_t units : {4, 16}) {  // neither fast nor slow
    SampleAfter(units);
    EXPECT_EQ(InForce(), 2) << units;
  }
  SampleAfter(17);
  double power = 1;
  for (int i = 0; i < 12; ++i) {
    SampleAfter(3);
    EXPECT_EQ(OfSample(), power);  // what the sample itself was drawn with
    EXPECT_EQ(InForce(), power *= 2);
  }
  SampleAfter(3);
  EXPECT_EQ(InForce(), 4096);
  SampleAfter(4);
  EXPECT_EQ(InForce(), 4096);
  for (int i = 0; i < 12; ++i) {
    SampleAfter(17);
    EXPECT_EQ(OfSample(), power);
    EXPECT_EQ(InForce(), power /= 2);
  }
  SampleAfter(17);
  EXPECT_EQ(InForce(), 1);
}

TEST_F(Thinning, EndsWithTheInterval) {
  for (int i = 0; i < 5; ++i) SampleAfter(0);
  ASSERT_EQ(InForce(), 32);
  rate_.epoch = 2;
  EXPECT_TRUE(c_.Spend(SIZE_MAX, rate_, Stretches::kAllowed));
  EXPECT_EQ(OfSample(), 1);
  EXPECT_EQ(InForce(), 1);
}

TEST_F(Thinning, IsForLongIntervalsOnly) {
  rate_ = {kInterval - 1, 2};
  EXPECT_TRUE(c_.Spend(SIZE_MAX, rate_, Stretches::kAllowed));
  for (int i = 0; i < 5; ++i) SampleAfter(0);
  EXPECT_EQ(InForce(), 1);
}

// The longest intervals thinned most, beyond what the count can hold.
TEST_F(Thinning, APointTooFarToCountIsFar) {
  rate_ = {kMostSampleInterval, 2};
  EXPECT_TRUE(c_.Spend(SIZE_MAX, rate_, Stretches::kAllowed));
  for (int i = 0; i < 12; ++i) SampleAfter(0);
  int near = 0;
  for (int i = 0; i < 200; ++i) {
    SampleAfter(0);
    near += c_.stretch + c_.beyond < uint64_t{1} << 47;
  }
  EXPECT_LT(near, 30);  // one in 33 is; one in two would be if the rest were cut off
}

TEST(SampleCountdown, APauseLosesNothing) {
  SampleCountdown c;
  c.Seed(13);
  c.Spend(1, {size_t{1} << 30, 1}, Stretches::kAllowed);
  const uint64_t left = c.stretch + c.beyond;
  ASSERT_GT(c.stretch, 0u);
  c.Pause();
  EXPECT_EQ(c.stretch, 0u);
  EXPECT_EQ(c.beyond, left);
}

TEST(SampleCountdown, NoSeedIsNone) {
  SampleCountdown c;
  c.Seed(0 - uint64_t{0x9e3779b97f4a7c15u});  // which mixes to zero
  EXPECT_NE(c.random, 0u);
}

TEST(SampleMath, GreatExpectationsAreCertain) {
  for (const double x : {41.0, 700.0, 1000.0, 1e9, 1e300}) EXPECT_EQ(ChanceOfSample(x), 1) << x;
}

}  // namespace
}  // namespace strata
