// See site_learner.h.
#include "lifetime/site_learner.h"

namespace strata {
namespace {

// Fewer may be chance.
constexpr float kLeastSamples = 2;
constexpr float kNearlyAll = 0.9f, kStillMany = 0.75f;
// Of one stack: what little of it passes is no reason to look further out.
constexpr float kMost = 0.8f;

bool IsMostly(float part, float other, float share) {
  return part >= kLeastSamples && part >= share * (part + other);
}

}  // namespace

Prediction::Kind SiteLearner::Verdict(const SiteTally& t, Frames further) const {
  const bool lasted_before = now_.Find(t.key).kind() == Prediction::kLasts;
  if (IsMostly(t.lasted, t.passed, lasted_before ? kStillMany : kNearlyAll))
    return Prediction::kLasts;
  if (!t.has_lasting_stack) return Prediction::kNone;
  if (further == Frames::kMore) return Prediction::kDeeper;
  return t.lasted > t.passed ? Prediction::kLasts : Prediction::kNone;
}

SiteTally& SiteLearner::TallyOf(SiteKey key) {
  // The high bits: the low ones of keys with a frame in common may be alike.
  for (size_t i = static_cast<size_t>(Raw(key) >> 32);; ++i) {
    SiteTally& t = tallies_[i & mask_];
    if (t.key == key) return t;
    if (t.key != SiteKey::kNone) continue;
    t.key = key;
    return t;
  }
}

void SiteLearner::Sum(const SiteEvidence* evidence, size_t n) {
  for (size_t i = 0; i <= mask_; ++i) tallies_[i] = {};
  for (size_t i = 0; i < n; ++i) {
    const SiteEvidence& e = evidence[i];
    if (e.site == SiteKey::kNone) continue;
    SiteTally& t = TallyOf(e.site);
    t.lasted += e.lasted;
    t.passed += e.passed;
    t.has_lasting_stack |= IsMostly(e.lasted, e.passed, kMost);
  }
}

size_t SiteLearner::Decide(SiteEvidence* evidence, size_t n, PredictionCache::Draft& draft) {
  size_t made = 0;
  bool undecided = true;
  for (size_t frame = 1; undecided; ++frame) {
    undecided = false;
    Sum(evidence, n);
    for (size_t i = 0; i < n; ++i) {
      SiteEvidence& e = evidence[i];
      if (e.site == SiteKey::kNone) continue;
      SiteTally& t = TallyOf(e.site);
      const Prediction::Kind verdict =
          Verdict(t, frame <= kMostFrames ? Frames::kMore : Frames::kNoMore);
      const bool goes_on = verdict == Prediction::kDeeper && frame < e.depth;
      const size_t words_up = goes_on ? e.words_up[frame - 1] : 0;
      if (!t.is_decided && verdict != Prediction::kNone && draft.Put(e.site, {verdict, words_up}))
        ++made;
      t.is_decided = true;
      e.site = goes_on ? Deepened(e.site, e.frames[frame]) : SiteKey::kNone;
      undecided |= goes_on;
    }
  }
  return made;
}

}  // namespace strata
