// Learns which places allocate what lasts, from the samples of this process, and puts it to use.
// Sits in malloc; the background thread calls it. What is decided is in lifetime/site_learner.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heaps/lifetime_evidence.h"
#include "malloc/runtime.h"

namespace strata {

// One in a process, and one caller at a time. What it knows of the past goes with it; what it
// predicted stays.
class LifetimeLearner {
 public:
  // May take milliseconds. Returns when to come again.
  uint64_t Look(uint64_t now_ns);

 private:
  void Learn(Runtime& r);

  LifetimeEvidence evidence_;
  uint64_t samples_ = 0;  // at the last look
};

struct LearningStats {
  size_t places = 0;     // entries of the table now
  uint64_t changes = 0;  // of entries, so far
  uint64_t rounds = 0;   // in which the samples were looked at
};

LearningStats StatsOfLearning();

}  // namespace strata
