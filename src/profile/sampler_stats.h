// What the sampler, and what learns from it, tell the statistics about themselves. Sits in profile.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

struct SamplerStats {
  size_t interval = 0;   // mean bytes between samples; 0: off
  uint64_t samples = 0;  // taken so far
  size_t live_samples = 0;
  size_t live_bytes_estimate = 0;
  size_t peak_bytes_estimate = 0;
  size_t contexts = 0;   // different stacks
  uint64_t dropped = 0;  // samples for which there was no room
};

// Blocks between guard pages (heaps/guard_pool.h).
struct GuardStats {
  size_t every = 0;  // one of so many allocations; 0: none
  size_t slots = 0;  // 0: no block was guarded yet
  size_t taken = 0;  // blocks, so far
  size_t live = 0;
  size_t live_bytes = 0;
  size_t errors = 0;  // memory errors that were noticed, by guards or not
};

struct PredictionStats {
  size_t places = 0;        // entries of the table of predictions now
  uint64_t changes = 0;     // of entries, so far
  uint64_t rounds = 0;      // in which the samples were looked at; 0: nothing is learned
  size_t lasting_live = 0;  // bytes of live objects that lie where what lasts does
  size_t bytes = 0;         // that the model takes, and what is known of the places
  // Of the model: stacks and sizes it was asked about, samples whose stack it had been asked about
  // by then or had not, stacks of which the process has seen the opposite of what it says.
  uint64_t model_asked = 0;
  uint64_t model_hits = 0;
  uint64_t model_misses = 0;
  uint64_t model_disagreements = 0;
};

}  // namespace strata
