// What lasts and what is usual, from samples: relative to others of the size, dead or alive, and
// with the past forgotten.
#include "heaps/lifetime_evidence.h"

#include <gtest/gtest.h>

#include <deque>

#include "../profile/sample_fixture.h"

namespace strata::test {
namespace {

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr size_t kSize = 500;
// In which each block is a sample.
constexpr size_t kInterval = 1;

class LifetimeEvidenceTest : public testing::Test {
 protected:
  uintptr_t Allocate(uintptr_t caller, size_t size = kSize) {
    const uintptr_t p = next_;
    next_ += kPageSize;
    const uintptr_t stack[] = {caller, 0x1000, 0x2000};
    sites_.push_back({Raw(KeyOf(caller, 0, ClassOfSize(size))), {11, 22}});
    SampleEvent e = heap_.At(p);
    e.site = &sites_.back();
    EXPECT_TRUE(heap_.sampler.Add(e, size, static_cast<double>(size), stack, 3));
    return p;
  }
  void Free(uintptr_t p) { EXPECT_TRUE(heap_.sampler.Remove(heap_.At(p))); }
  void Live(uintptr_t caller, uint64_t ns, size_t size = kSize) {
    const uintptr_t p = Allocate(caller, size);
    heap_.now_ns += ns;
    Free(p);
  }
  const SiteEvidence& Of(uintptr_t caller, size_t size = kSize) {
    EXPECT_TRUE(evidence_.Gather(heap_.sampler, heap_.now_ns));
    const SiteKey key = KeyOf(caller, 0, ClassOfSize(size));
    for (size_t i = 0; i < evidence_.size(); ++i) {
      if (evidence_.rows()[i].site == key) return evidence_.rows()[i];
    }
    static const SiteEvidence none;
    return none;
  }

  SampledHeap heap_{kInterval};
  LifetimeEvidence evidence_;
  std::deque<SampleSite> sites_;
  uintptr_t next_ = SampledHeap::kBase;
};

TEST_F(LifetimeEvidenceTest, WithoutSamplesThereIsNone) {
  EXPECT_FALSE(evidence_.Gather(heap_.sampler, kSecond));
}

TEST_F(LifetimeEvidenceTest, TheStackAndWhereItsFramesLieComeAlong) {
  Live(1, 100 * kMs);
  const SiteEvidence& e = Of(1);
  ASSERT_EQ(e.depth, 3u);
  EXPECT_EQ(e.frames[0], 1u);
  EXPECT_EQ(e.frames[1], 0x1000u);
  EXPECT_EQ(e.words_up[0], 11u);
  EXPECT_EQ(e.words_up[1], 22u);
}

TEST_F(LifetimeEvidenceTest, OfASizeThatDoesNotCountNothingIsSaid) {
  for (int i = 0; i < 9; ++i) Live(1, 100 * kMs);
  evidence_.SetCounts(ClassOfSize(kSize), false);
  EXPECT_EQ(Of(1).site, SiteKey::kNone);
  evidence_.SetCounts(ClassOfSize(kSize), true);
  EXPECT_NEAR(Of(1).passed, 9, 0.9);
}

TEST_F(LifetimeEvidenceTest, WhatIsUsualMayBeKnownToBeMore) {
  evidence_.SetLeastUsual(ClassOfSize(kSize), 1e9);
  for (int i = 0; i < 9; ++i) Live(1, 50 * kMs);
  Live(2, 500 * kMs);
  EXPECT_EQ(Of(2).lasted, 0);
  EXPECT_NEAR(Of(2).passed, 1, 0.1);
  const uintptr_t p = Allocate(3);
  heap_.now_ns += 2 * kSecond;
  EXPECT_EQ(Of(3).lasted, 1);
  Free(p);
}

TEST_F(LifetimeEvidenceTest, TwiceTheMedianOfTheSizeIsMoreThanUsual) {
  for (int i = 0; i < 9; ++i) Live(1, 100 * kMs);
  Live(2, 150 * kMs);
  Live(3, 500 * kMs);
  EXPECT_NEAR(Of(1).passed, 9, 0.9);
  EXPECT_EQ(Of(1).lasted, 0);
  EXPECT_NEAR(Of(2).passed, 1, 0.1);
  EXPECT_NEAR(Of(3).lasted, 1, 0.1);
}

TEST_F(LifetimeEvidenceTest, TheLivingCountOnceTheyAreOldEnough) {
  for (int i = 0; i < 9; ++i) Live(1, 100 * kMs);
  Allocate(2);
  EXPECT_EQ(Of(2).lasted, 0);
  EXPECT_EQ(Of(2).passed, 0);
  heap_.now_ns += 400 * kMs;
  EXPECT_EQ(Of(2).lasted, 1);
}

TEST_F(LifetimeEvidenceTest, EachSizeHasItsOwnUsual) {
  for (int i = 0; i < 9; ++i) {
    Live(1, 10 * kMs, 100);
    Live(2, 10 * kSecond, 5000);
  }
  Live(3, kSecond, 100);
  Live(3, kSecond, 5000);
  EXPECT_GT(Of(3, 100).lasted, 0);
  EXPECT_EQ(Of(3, 5000).lasted, 0);
}

TEST_F(LifetimeEvidenceTest, MomentsAreUsualHoweverShortTheOthers) {
  for (int i = 0; i < 9; ++i) Live(1, 1000);
  Live(2, 10 * kMs);
  Live(3, 100 * kMs);
  EXPECT_EQ(Of(2).lasted, 0);
  EXPECT_GT(Of(3).lasted, 0);
}

TEST_F(LifetimeEvidenceTest, WhereNothingDiedNothingLasts) {
  Allocate(1);
  heap_.now_ns += 1000 * kSecond;
  EXPECT_EQ(Of(1).lasted, 0);
}

TEST_F(LifetimeEvidenceTest, ThePastIsForgotten) {
  for (int i = 0; i < 8; ++i) Live(1, 100 * kMs);
  const float before = Of(1).passed;
  heap_.now_ns += static_cast<uint64_t>(LifetimeEvidence::kHalfLifeNs);
  EXPECT_NEAR(Of(1).passed, before / 2, before / 50);
  for (int i = 0; i < 40; ++i) {
    heap_.now_ns += static_cast<uint64_t>(LifetimeEvidence::kHalfLifeNs);
    Of(1);
  }
  EXPECT_LT(Of(1).passed, 1e-6);
  Live(1, 100 * kMs);
  EXPECT_NEAR(Of(1).passed, 1, 0.1);
}

// A process that was stopped for an hour, or a machine: nobody looked, and nothing ran.
TEST_F(LifetimeEvidenceTest, AJumpOfTheClockAgesNobody) {
  for (int i = 0; i < 8; ++i) Live(1, 100 * kMs);
  const float before = Of(1).passed;
  Allocate(1);
  heap_.now_ns += 3600 * kSecond;
  EXPECT_EQ(Of(1).lasted, 0);
  EXPECT_GE(Of(1).passed, before / 3) << "what was known is known still";
  heap_.now_ns += 100 * kMs;
  EXPECT_EQ(Of(1).lasted, 0);
  heap_.now_ns += 200 * kMs;
  EXPECT_EQ(Of(1).lasted, 1) << "it goes on to age";
}

TEST_F(LifetimeEvidenceTest, WhoHadLastedBeforeAJumpLastsAfterIt) {
  for (int i = 0; i < 8; ++i) Live(1, 100 * kMs);
  Allocate(2);
  heap_.now_ns += 500 * kMs;
  EXPECT_EQ(Of(2).lasted, 1);
  heap_.now_ns += 3600 * kSecond;
  EXPECT_EQ(Of(2).lasted, 1);
  heap_.now_ns += 3600 * kSecond;
  EXPECT_EQ(Of(2).lasted, 0) << "of two stops the first is not known any more";
}

TEST_F(LifetimeEvidenceTest, AClockThatGoesBackAgesNobody) {
  Allocate(2);
  heap_.now_ns += 7200 * kSecond;
  for (int i = 0; i < 8; ++i) Live(1, 100 * kMs);
  const float before = Of(1).passed;
  const uintptr_t dies = Allocate(1);
  heap_.now_ns -= 3600 * kSecond;
  EXPECT_EQ(Of(2).lasted, 0);
  EXPECT_EQ(Of(1).lasted, 0);
  heap_.now_ns += 300 * kMs;
  EXPECT_EQ(Of(1).lasted, 1) << "born at a time that is to come again";
  Free(dies);
  EXPECT_EQ(Of(1).lasted, 0);
  EXPECT_GE(Of(1).passed, before / 2);
  EXPECT_EQ(Of(2).lasted, 1) << "it goes on to age";
}

// Looks are five seconds apart at most where there is much to look at.
TEST_F(LifetimeEvidenceTest, LooksThatAreFarApartAreNoJump) {
  for (int i = 0; i < 9; ++i) Live(1, 100 * kMs);
  Of(1);
  Allocate(2);
  heap_.now_ns += static_cast<uint64_t>(LifetimeEvidence::kMostBetweenLooksNs);
  EXPECT_EQ(Of(2).lasted, 1);
}

TEST_F(LifetimeEvidenceTest, LargeBlocksAndUnknownPlacesAreNone) {
  Live(1, 100 * kMs, kMaxClassSize + 1);
  EXPECT_EQ(Of(1, kMaxClassSize).frames, nullptr);
  const uintptr_t stack[] = {7};
  ASSERT_TRUE(heap_.sampler.Add(heap_.At(next_), kSize, kSize, stack, 1));
  EXPECT_EQ(Of(7).frames, nullptr);
}

TEST_F(LifetimeEvidenceTest, StacksThatCameLaterHaveTheirRoom) {
  Live(1, 100 * kMs);
  EXPECT_GT(Of(1).passed, 0);
  for (uintptr_t caller = 2; caller < 300; ++caller) Live(caller, 100 * kMs);
  EXPECT_GT(Of(299).passed, 0);
}

}  // namespace
}  // namespace strata::test
