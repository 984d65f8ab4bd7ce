// Learns which places allocate what lasts, from the samples of this process and from what a model
// says of their stacks, and puts it to use. Sits in malloc; the background thread calls it. What is
// decided is in lifetime/site_learner.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heaps/lifetime_evidence.h"
#include "heaps/model_answers.h"
#include "malloc/runtime.h"

namespace strata {

// Reads the model that the options name, if they do. One that is of no use gets a line on stderr,
// and the process goes on without. Once, as the process starts.
void OpenModel(Runtime& r);

// One in a process, and one caller at a time. What it knows of the past goes with it; what it
// predicted stays.
class LifetimeLearner {
 public:
  // May take milliseconds. Returns when to come again.
  uint64_t Look(uint64_t now_ns);

 private:
  void Learn(Runtime& r);
  void AskModel(Runtime& r);
  void AdaptSampling(Runtime& r, uint64_t now_ns, bool has_news);

  LifetimeEvidence evidence_;
  ModelAnswers answers_;
  FrameNames names_;
  uint64_t samples_ = 0;      // at the last look
  uint64_t stacks_ = 0;       // the same
  uint32_t files_ = 0;        // the state of the unwind tables that frames were named by
  uint64_t dense_until_ = 0;  // samples are taken more often for so long
  size_t interval_ = 0;       // the sampler's, if set here
};

struct LearningStats {
  size_t places = 0;     // entries of the table now
  uint64_t changes = 0;  // of entries, so far
  uint64_t rounds = 0;   // in which the samples were looked at
  ModelStats model;
};

LearningStats StatsOfLearning();

}  // namespace strata
