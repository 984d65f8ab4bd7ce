// From what became of samples to what is predicted for the places they came from: a pure function.
// Sits in lifetime; malloc/lifetimes.cpp hands it the evidence and puts its decisions to use.
//
// A place is told by as few frames as do: by its key alone where all that was allocated there had
// one fate, and by its callers, their callers and so on where fates differ. So a wrapper of malloc
// costs a step for each frame and an ordinary call none, and a stack that differs from others only
// far out, in frames that do not matter, is no place of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lifetime/prediction_cache.h"
#include "lifetime/site.h"

namespace strata {

// Of one stack and size. Counted in samples: a sample stands for the same bytes everywhere.
struct SiteEvidence {
  SiteKey site = SiteKey::kNone;
  const uintptr_t* frames = nullptr;   // innermost first; the first is the site's own
  const uint16_t* words_up = nullptr;  // of the others: where their return addresses lie
  size_t depth = 0;
  float lasted = 0;  // outlived what is usual for their size, dead or alive
  float passed = 0;  // died before
};

// One key's sums, in the learner's scratch memory.
struct SiteTally {
  SiteKey key = SiteKey::kNone;
  float lasted = 0;
  float passed = 0;
  bool has_lasting_stack = false;
  bool is_decided = false;
};

// Whether a stack has frames further out that may be looked at.
enum class Frames : bool { kNoMore, kMore };

class SiteLearner {
 public:
  // Frames looked at beside the key.
  static constexpr size_t kMostFrames = 12;

  // `tallies`: a power of two of them, more than twice the evidence, in any state. The evidence is
  // changed. `now`: what is predicted already, which it takes more to give up than to make, so that
  // a place whose objects mostly last does not go to and fro. Returns how many predictions were
  // made.
  SiteLearner(SiteTally* tallies, size_t n, PredictionCache now)
      : tallies_(tallies), mask_(n - 1), now_(now) {}
  size_t Decide(SiteEvidence* evidence, size_t n, PredictionCache::Draft& draft);

 private:
  SiteTally& TallyOf(SiteKey key);
  Prediction::Kind Verdict(const SiteTally& t, Frames further) const;
  void Sum(const SiteEvidence* evidence, size_t n);

  SiteTally* tallies_;
  size_t mask_;
  PredictionCache now_;
};

}  // namespace strata
