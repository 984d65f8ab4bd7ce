// What a model says of the stacks that the sampler has seen, and the evidence that it makes until a
// process knows better: each stack and size is asked about once, in the background. Sits in heaps,
// between the sampler, lifetime/model.h and lifetime_evidence.h. After M. Maas et al.,
// "Learning-based memory allocation for C++ server workloads", ASPLOS 2020, sections 5 and 6.
//
// A model says how long an object will live; what to keep apart is relative. So a place lasts by a
// model if three in four of its objects outlive what is usual for their size: what was seen to be,
// or before anything died, the median of what the model says. Where some do and some do not, or as
// soon as the process has seen for itself, it has no say.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heaps/lifetime_evidence.h"
#include "lifetime/model.h"
#include "profile/frame_names.h"
#include "profile/sampler.h"
#include "profile/scratch_array.h"

namespace strata {

// Names frames; FrameNames in a process, anything in a test.
class FrameNamer {
 public:
  using Function = bool (*)(FrameNamer& self, const uintptr_t* frames, size_t n,
                            FrameNames::Sink& sink);
  explicit FrameNamer(Function name) : name_(name) {}
  bool Name(const uintptr_t* frames, size_t n, FrameNames::Sink& sink) {
    return name_(*this, frames, n, sink);
  }

 private:
  Function name_;
};

struct ModelStats {
  uint64_t asked = 0;          // stacks and sizes
  uint64_t hits = 0;           // samples whose stack had been asked about before they were taken
  uint64_t misses = 0;         // samples whose stack had not
  uint64_t disagreements = 0;  // stacks of which the process has seen the opposite, now
  uint64_t sure = 0;           // of what was asked: seldom of another program's stacks
};

// Used by one thread at a time.
class ModelAnswers {
 public:
  // Asked about in one round, so that a round ends soon.
  static constexpr size_t kMostRowsARound = 1024;

  // Asks the model, which is open, about what is new. How many stacks and sizes that were.
  size_t AskNew(const Model& model, const Sampler& sampler, FrameNamer& namer);
  // Files were loaded or unloaded: other functions may lie where some did.
  void ForgetFrames();
  // To evidence gathered since.
  void AddTo(LifetimeEvidence& evidence);
  const ModelStats& stats() const { return stats_; }
  // That the arrays take.
  size_t bytes() const {
    return answers_.mapped_bytes() + fresh_.mapped_bytes() + slots_.mapped_bytes() +
           frame_rows_.mapped_bytes() + said_.mapped_bytes();
  }

 private:
  struct Answer {
    uint64_t samples = 0;
    uint8_t shares[kLifetimeClasses] = {};  // of 255
    SizeClass size_class = SizeClass::kNone;
    LifetimeClass likeliest{};
    bool is_asked = false;
    bool is_overruled = false;  // enough was seen, now or once: the model has no say any more
    bool disagrees = false;     // with what was seen then
  };
  struct FrameSlot {
    uintptr_t frame = 0;
    size_t row = 0;
    bool is_no_stack = false;  // stands for stacks that are not known
  };
  class Projector;
  static constexpr size_t kFrameSlots = 4096;  // a power of two
  static constexpr size_t kMostFrameRows = kFrameSlots / 2;

  bool MakeRoom(size_t rows);
  void Collect(const Sampler& sampler);
  bool NameFrames(const Model& model, FrameNamer& namer);
  FrameSlot* SlotOf(uintptr_t frame);
  void Ask(const Model& model, const SampleRow& row);
  bool WasSaid(SizeClass c) const;
  size_t UsualClass(SizeClass c) const;
  void SayUsual(LifetimeEvidence& evidence, size_t n);

  ScratchArray<Answer> answers_;  // by the row's number
  ScratchArray<const SampleRow*> fresh_;
  ScratchArray<uintptr_t> frames_;  // without a name as yet
  ScratchArray<FrameSlot> slots_;
  ScratchArray<FrameRow> frame_rows_;
  ScratchArray<double> said_;  // weight of each class by size
  ModelStats stats_;
};

}  // namespace strata
