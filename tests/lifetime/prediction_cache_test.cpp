// The table of predictions: keys that differ are told apart, and a draft replaces what was there.
#include "lifetime/prediction_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

namespace strata::test {
namespace {

constexpr auto kClass = static_cast<SizeClass>(5);

TEST(SiteKey, CallerHeightAndClassEachTellPlacesApart) {
  const SiteKey key = KeyOf(0x401234, 0x7ffe1230, kClass);
  EXPECT_EQ(KeyOf(0x401234, 0x7ffe1230, kClass), key);
  EXPECT_NE(KeyOf(0x401235, 0x7ffe1230, kClass), key);
  EXPECT_NE(KeyOf(0x401234, 0x7ffe1240, kClass), key);
  EXPECT_NE(KeyOf(0x401234, 0x7ffe1230, static_cast<SizeClass>(6)), key);
}

// Threads' stacks begin at the same place within a page.
TEST(SiteKey, IsTheSameAtTheSameHeightOfAnotherStack) {
  EXPECT_EQ(KeyOf(0x401234, 0x7f0000801230, kClass), KeyOf(0x401234, 0x7f1234567230, kClass));
}

TEST(SiteKey, NoTwoPlacesShareOne) {
  std::set<SiteKey> keys;
  size_t places = 0;
  for (uintptr_t caller = 0x400000; caller < 0x400100; ++caller) {
    for (uintptr_t frame = 0; frame < 4096; frame += 16) {
      keys.insert(KeyOf(caller, frame, kClass));
      ++places;
    }
  }
  EXPECT_EQ(keys.size(), places);
}

TEST(SiteKey, DeeperKeysDependOnTheOrderOfCallers) {
  const SiteKey key = KeyOf(0x401234, 0, kClass);
  EXPECT_NE(Deepened(key, 1), key);
  EXPECT_NE(Deepened(Deepened(key, 1), 2), Deepened(Deepened(key, 2), 1));
}

class PredictionCacheTest : public testing::Test {
 protected:
  size_t Publish() {
    const size_t changed = cache_.Publish(PredictionCache::Draft(draft_.data()));
    draft_.assign(draft_.size(), 0);
    return changed;
  }
  bool Put(SiteKey key, Prediction prediction) {
    return PredictionCache::Draft(draft_.data()).Put(key, prediction);
  }
  Prediction::Kind Kind(SiteKey key) const { return cache_.Find(key).kind(); }

  std::unique_ptr<PredictionCache::Words> words_{reinterpret_cast<PredictionCache::Words*>(
      new std::atomic<uint64_t>[PredictionCache::kEntries] {})};
  PredictionCache cache_{*words_};
  std::vector<uint64_t> draft_ = std::vector<uint64_t>(PredictionCache::kEntries);
};

TEST_F(PredictionCacheTest, FindsWhatWasPublishedAndNothingElse) {
  const SiteKey lasts = KeyOf(0x401000, 0, kClass), deeper = KeyOf(0x402000, 0, kClass);
  EXPECT_TRUE(Put(lasts, Prediction::kLasts));
  EXPECT_TRUE(Put(deeper, {Prediction::kDeeper, 77}));
  EXPECT_EQ(Kind(lasts), Prediction::kNone);  // a draft so far
  EXPECT_EQ(Publish(), 2u);
  EXPECT_EQ(Kind(lasts), Prediction::kLasts);
  EXPECT_EQ(Kind(deeper), Prediction::kDeeper);
  EXPECT_EQ(cache_.Find(deeper).words_up(), 77u);
  EXPECT_EQ(Kind(KeyOf(0x403000, 0, kClass)), Prediction::kNone);
}

TEST_F(PredictionCacheTest, ADraftReplacesAll) {
  const SiteKey was = KeyOf(0x401000, 0, kClass), is = KeyOf(0x402000, 0, kClass);
  Put(was, Prediction::kLasts);
  Publish();
  Put(is, Prediction::kLasts);
  EXPECT_EQ(Publish(), 2u);
  EXPECT_EQ(Kind(was), Prediction::kNone);
  EXPECT_EQ(Kind(is), Prediction::kLasts);
  Put(is, Prediction::kLasts);
  EXPECT_EQ(Publish(), 0u);
}

TEST_F(PredictionCacheTest, APlaceTooFarUpIsNotKept) {
  EXPECT_EQ(Prediction(Prediction::kDeeper, Prediction::kMostWordsUp).words_up(),
            Prediction::kMostWordsUp);
  EXPECT_EQ(Prediction(Prediction::kDeeper, Prediction::kMostWordsUp + 1).words_up(), 0u);
}

// Against a map, until entries are taken and beyond.
TEST_F(PredictionCacheTest, AgreesWithAMapOfWhatFitted) {
  std::mt19937_64 random(7);
  std::unordered_map<uint64_t, Prediction::Kind> model;
  size_t refused = 0;
  for (size_t i = 0; i < PredictionCache::kEntries; ++i) {
    const SiteKey key = KeyOf(random() >> 17, random() << 4, kClass);
    const auto kind = random() % 2 == 0 ? Prediction::kLasts : Prediction::kDeeper;
    if (model.contains(Raw(key))) continue;
    if (Put(key, kind)) {
      model[Raw(key)] = kind;
    } else {
      model[Raw(key)] = Prediction::kNone;
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
  Publish();
  for (const auto& [key, kind] : model) ASSERT_EQ(Kind(static_cast<SiteKey>(key)), kind);
}

}  // namespace
}  // namespace strata::test
