// What is predicted from which evidence: by the key alone, by callers, and not at all.
#include "lifetime/site_learner.h"

#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace strata::test {
namespace {

constexpr auto kClass = static_cast<SizeClass>(5);

class SiteLearnerTest : public testing::Test {
 protected:
  // Frames innermost first; the place is the first's. Words up: of the frame after the first, 10,
  // then 20 …
  void Add(std::vector<uintptr_t> frames, float lasted, float passed) {
    const SiteKey site = KeyOf(frames[0], 0, kClass);
    frames_.push_back(std::move(frames));
    const std::vector<uintptr_t>& kept = frames_.back();
    evidence_.push_back({site, kept.data(), kUp, kept.size(), lasted, passed});
  }
  void Decide() {
    std::vector<SiteTally> tallies(std::bit_ceil(2 * evidence_.size() + 1));
    std::vector<uint64_t> draft(PredictionCache::kEntries);
    PredictionCache::Draft drafted(draft.data());
    std::vector<SiteEvidence> evidence = evidence_;
    made_ = SiteLearner(tallies.data(), tallies.size(), cache_)
                .Decide(evidence.data(), evidence.size(), drafted);
    cache_.Publish(drafted);
  }
  // As malloc looks a stack up.
  Prediction::Kind Predict(const std::vector<uintptr_t>& frames) {
    SiteKey key = KeyOf(frames[0], 0, kClass);
    for (size_t i = 1;; ++i) {
      const Prediction found = cache_.Find(key);
      if (found.kind() != Prediction::kDeeper || i == frames.size()) return found.kind();
      key = Deepened(key, frames[i]);
    }
  }
  Prediction Of(uintptr_t caller) { return cache_.Find(KeyOf(caller, 0, kClass)); }

  static constexpr uint16_t kUp[SiteLearner::kMostFrames + 2] = {10, 20, 30, 40, 50, 60, 70,
                                                                 80, 90, 91, 92, 93, 94, 95};
  std::deque<std::vector<uintptr_t>> frames_;
  std::vector<SiteEvidence> evidence_;
  size_t made_ = 0;
  std::unique_ptr<PredictionCache::Words> words_{reinterpret_cast<PredictionCache::Words*>(
      new std::atomic<uint64_t>[PredictionCache::kEntries] {})};
  PredictionCache cache_{*words_};
};

TEST_F(SiteLearnerTest, WithoutEvidenceNothingIsPredicted) {
  Decide();
  EXPECT_EQ(made_, 0u);
  Add({1, 2}, 0, 100);
  Add({3, 2}, 0, 0);
  Decide();
  EXPECT_EQ(made_, 0u);
}

TEST_F(SiteLearnerTest, APlaceWhoseObjectsLastIsToldByItsKeyAlone) {
  Add({1, 2, 9}, 5, 0);
  Add({1, 3, 9}, 4, 1);
  Add({7, 3, 9}, 0, 50);
  Decide();
  EXPECT_EQ(made_, 1u);
  EXPECT_EQ(Of(1).kind(), Prediction::kLasts);
  EXPECT_EQ(Of(7).kind(), Prediction::kNone);
}

TEST_F(SiteLearnerTest, OneSampleMayBeChance) {
  Add({1, 2}, 1, 0);
  Decide();
  EXPECT_EQ(made_, 0u);
  Add({1, 3}, 1, 0);  // from another caller, to the same place
  Decide();
  EXPECT_EQ(Of(1).kind(), Prediction::kLasts);
}

TEST_F(SiteLearnerTest, ItTakesMoreToGiveAPredictionUpThanToMakeIt) {
  Add({1}, 78, 22);
  Decide();
  EXPECT_EQ(made_, 0u);
  evidence_[0].lasted = 400;
  Decide();
  EXPECT_EQ(Of(1).kind(), Prediction::kLasts);
  evidence_[0].lasted = 78;
  Decide();
  EXPECT_EQ(Of(1).kind(), Prediction::kLasts);
  evidence_[0].lasted = 60;
  Decide();
  EXPECT_EQ(made_, 0u);
}

TEST_F(SiteLearnerTest, AWrapperIsToldByItsCallers) {
  Add({1, 20, 9}, 3, 0);
  Add({1, 30, 9}, 0, 300);
  Decide();
  EXPECT_EQ(made_, 2u);
  EXPECT_EQ(Of(1).kind(), Prediction::kDeeper);
  EXPECT_EQ(Of(1).words_up(), 10u);
  EXPECT_EQ(Predict({1, 20, 9}), Prediction::kLasts);
  EXPECT_EQ(Predict({1, 30, 9}), Prediction::kNone);
  EXPECT_EQ(Predict({1, 40, 9}), Prediction::kNone);  // never seen
}

TEST_F(SiteLearnerTest, AWrapperInAWrapperIsToldFurtherOut) {
  Add({1, 2, 3, 20, 9}, 3, 0);
  Add({1, 2, 3, 30, 9}, 0, 300);
  Add({1, 5, 3, 30, 9}, 0, 300);
  Decide();
  EXPECT_EQ(made_, 4u);
  EXPECT_EQ(Predict({1, 2, 3, 20, 9}), Prediction::kLasts);
  EXPECT_EQ(Predict({1, 2, 3, 30, 9}), Prediction::kNone);
  const SiteKey inner = Deepened(KeyOf(1, 0, kClass), 2);
  EXPECT_EQ(cache_.Find(inner).words_up(), 20u);
}

TEST_F(SiteLearnerTest, ACallerOfWhichSomeLastIsNotTakenForOneOfWhichAllDo) {
  Add({1, 2}, 40, 60);
  Decide();
  EXPECT_EQ(made_, 0u);
}

TEST_F(SiteLearnerTest, BeyondTheLastFrameTheMajorityDecides) {
  std::vector<uintptr_t> lasts, passes;
  for (uintptr_t i = 0; i <= SiteLearner::kMostFrames; ++i) {
    lasts.push_back(100 + i);
    passes.push_back(100 + i);
  }
  lasts.push_back(1);
  passes.push_back(2);
  Add(lasts, 60, 0);
  Add(passes, 0, 40);
  Decide();
  EXPECT_EQ(Predict(lasts), Prediction::kLasts);
  Add(passes, 0, 40);
  Decide();
  EXPECT_EQ(Predict(lasts), Prediction::kNone);
}

TEST_F(SiteLearnerTest, AStackThatEndsWhereOthersGoOnIsLeftAlone) {
  Add({1}, 0, 50);
  Add({1, 2}, 5, 0);
  Decide();
  EXPECT_EQ(Predict({1, 2}), Prediction::kLasts);
  EXPECT_EQ(Predict({1, 3}), Prediction::kNone);
}

// Stacks of a random call tree whose fate is set by one frame, wherever it lies: what passes is
// never said to last, and of what lasts nearly all is found; some entries of the table are taken.
TEST_F(SiteLearnerTest, StacksGetTheirOwnFate) {
  size_t all = 0, found = 0;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    evidence_.clear();
    frames_.clear();
    Decide();  // and nothing is predicted any more
    const uintptr_t decisive = 1 + random() % 6;
    std::vector<std::pair<std::vector<uintptr_t>, bool>> stacks;
    for (int i = 0; i < 200; ++i) {
      std::vector<uintptr_t> frames;
      for (size_t d = 0; d < 6; ++d) frames.push_back(d * 100 + 1 + random() % 6);
      const size_t at = seed % 6;
      const bool lasts = frames[at] == at * 100 + decisive;
      const float samples = 2 + static_cast<float>(random() % 5);
      Add(frames, lasts ? samples : 0, lasts ? 0 : samples);
      stacks.emplace_back(frames, lasts);
    }
    Decide();
    for (const auto& [frames, lasts] : stacks) {
      const bool predicted = Predict(frames) == Prediction::kLasts;
      ASSERT_LE(predicted, lasts) << "seed " << seed;
      all += lasts;
      found += predicted;
    }
  }
  EXPECT_GT(static_cast<double>(found), 0.95 * static_cast<double>(all));
}

}  // namespace
}  // namespace strata::test
