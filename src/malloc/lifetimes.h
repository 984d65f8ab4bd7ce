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

// One in a process, and one caller at a time.
class LifetimeLearner {
 public:
  // New stacks are looked for until there are so many, of a size each: an interpreter has ever new
  // ones, and each takes 0.8 KiB and some microseconds.
  static constexpr size_t kMostRowsSought = 1536;

  // May take milliseconds. Stacks are named if files may be opened: in a table of descriptors that
  // is not the program's. Returns when to come again.
  uint64_t Look(uint64_t now_ns, OpensFiles opens);
  // Sets the sampler's interval back to the option's; called when the background thread ends.
  void Rest();
  // The same in a forked child, where a thread that is gone may have the sampler's lock.
  void RestInChild();
  static bool SeeksStacks();
  // From the program's threads, after a sample: no look comes soon enough where each brings a new
  // stack.
  static void EndDenseIfFull(Runtime& r);

 private:
  void Learn(Runtime& r, OpensFiles opens);
  void HeedWhatIsLarge(Runtime& r);
  void AskModel(Runtime& r);
  void AdaptSampling(Runtime& r, size_t interval);
  bool IsDense(uint64_t now_ns, uint64_t new_samples);
  bool KnowsProgram() const;

  LifetimeEvidence evidence_;
  ModelAnswers answers_;
  FrameNames names_;
  uint64_t samples_ = 0;       // at the last look
  uint64_t stacks_ = 0;        // the same
  uint32_t files_ = 0;         // the state of the unwind tables that frames were named by
  uint64_t looked_ns_ = 0;     // the last look
  uint64_t sampled_ns_ = 0;    // the last that found new samples
  uint64_t dense_until_ = 0;   // samples are taken more often for so long
  uint64_t dense_ns_ = 0;      // how long they were while samples came, in all
  uint64_t without_news_ = 0;  // samples since a stack was new
  bool was_dense_ = false;
  bool was_large_[kNumSizes + 1] = {};  // ever
};

LifetimeLearner& TheLearner();
// The thread that learned did not come along: it begins anew.
void ForgetLearningInChild();

struct LearningStats {
  size_t places = 0;     // entries of the table now
  uint64_t changes = 0;  // of entries, so far
  uint64_t rounds = 0;   // in which the samples were looked at
  size_t bytes = 0;      // that the model takes, and what is known of the places
  ModelStats model;
};

LearningStats StatsOfLearning();

}  // namespace strata
