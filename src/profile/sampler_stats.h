// What the sampler tells the statistics about itself. Sits in profile.
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

}  // namespace strata
