// The look-up that takes no lock, against changes at every moment: it must never miss a sample that
// is there the whole time. Each change is made after each single instruction of the look-up, and
// the look-up after each single instruction of each change.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sample_fixture.h"
#include "single_step.h"

namespace strata {
namespace {

using test::SampledHeap;
using test::SingleStep;

constexpr uintptr_t kPage = SampledHeap::kBase + 7 * kPageSize;  // whose samples share a bucket
constexpr uintptr_t kMine = kPage;
constexpr uintptr_t kElsewhere = SampledHeap::kBase + 999 * kPageSize;

// The sample that is looked for lies deepest in its bucket, behind three others.
std::unique_ptr<SampledHeap> Scene(size_t more = 0) {
  auto heap = std::make_unique<SampledHeap>(1);
  EXPECT_TRUE(heap->Sample(kMine, 64, 1));
  for (uintptr_t i = 1; i <= 3; ++i) EXPECT_TRUE(heap->Sample(kPage + i * 64, 64, 2));
  for (size_t i = 0; i < more; ++i)
    EXPECT_TRUE(heap->Sample(SampledHeap::kBase + (2000 + i) * kPageSize, 64, 3));
  return heap;
}

using Change = void (*)(SampledHeap&);
constexpr Change kChanges[] = {
    // A record that a look-up may stand on goes to another bucket, by itself or by way of the free
    // ones.
    [](SampledHeap& h) { h.sampler.Move(kPage + 64, kElsewhere, 64, 0); },
    [](SampledHeap& h) { h.sampler.Move(kPage + 128, kElsewhere, 64, 0); },
    [](SampledHeap& h) { h.sampler.Move(kPage + 192, kElsewhere, 64, 0); },
    [](SampledHeap& h) { h.Free(kPage + 128); },
    [](SampledHeap& h) {
      h.Free(kPage + 64);
      h.Sample(kElsewhere, 64, 4);
    },
    [](SampledHeap& h) {
      h.Free(kPage + 192);
      h.Free(kPage + 128);
      h.Sample(kElsewhere, 64, 4);
      h.Sample(kElsewhere + kPageSize, 64, 4);
    },
    // Another one comes, also one for which there has to be a larger directory.
    [](SampledHeap& h) { h.Sample(kPage + 256, 64, 4); },
    [](SampledHeap& h) { h.Sample(kElsewhere, 64, 4); },
};
constexpr size_t kFills = 252;  // and the four: the next one makes the directory grow

TEST(SamplerLookup, FindsItsSampleWhateverChangesMeanwhile) {
  if (!test::kSingleSteps) GTEST_SKIP() << "ThreadSanitizer's own code must not be interrupted";
  for (const size_t more : {size_t{0}, kFills}) {
    for (size_t c = 0; c < std::size(kChanges); ++c) {
      size_t steps = 1;
      for (size_t at = 0; at < steps; ++at) {
        const auto heap = Scene(more);
        bool found = false;
        steps = SingleStep::Run([&] { found = heap->sampler.MayHold(kMine); },
                                [&](size_t n) {
                                  if (n == at) kChanges[c](*heap);
                                });
        ASSERT_TRUE(found) << "change " << c << " at instruction " << at << ", " << more;
      }
      EXPECT_GT(steps, 20u);
    }
  }
}

TEST(SamplerLookup, FindsItsSampleInTheMidstOfAnyChange) {
  if (!test::kSingleSteps) GTEST_SKIP() << "ThreadSanitizer's own code must not be interrupted";
  for (const size_t more : {size_t{0}, kFills}) {
    for (size_t c = 0; c < std::size(kChanges); ++c) {
      const auto heap = Scene(more);
      size_t missed = 0;
      SingleStep::Run([&] { kChanges[c](*heap); },
                      [&](size_t) { missed += !heap->sampler.MayHold(kMine); });
      EXPECT_EQ(missed, 0u) << "change " << c << ", " << more;
    }
  }
}

// Where others relink records on and on, a look-up ends.
TEST(SamplerLookup, GivesUpInALongBucket) {
  SampledHeap heap(1);
  for (uintptr_t i = 1; i < 6000; ++i) ASSERT_TRUE(heap.Sample(kPage + i, 1, 1));
  EXPECT_TRUE(heap.sampler.MayHold(kPage));  // which is no sample, but who knows
  EXPECT_FALSE(heap.Free(kPage));
}

}  // namespace
}  // namespace strata
