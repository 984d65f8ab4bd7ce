// From the sampler's sums to the rows of a profile: which values each kind has, and what a window
// of time makes of them. Sits in profile, between sampler.h and pprof_writer.h; needs no clock and
// no heap: what it is not given it does not know.
//
// Sums are copied under the sampler's lock, a batch at a time; everything else is done on the copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/pinned_bytes.h"
#include "profile/pprof_writer.h"
#include "profile/profile_kinds.h"
#include "profile/sampler.h"
#include "profile/scratch_array.h"

namespace strata {

// The value types of a kind, in the order in which its rows have them.
struct ProfileShape {
  static constexpr size_t kMostTypes = 20;

  PprofValueType types[kMostTypes];
  size_t types_n;
  const char* default_type;
};
ProfileShape ShapeOf(ProfileKind kind);

// The sums of all rows at one moment, in memory mapped for them.
struct SampleSnapshot {
  struct Row {
    const StackContext* context;
    size_t bytes;
    SampleSums sums;
    uint8_t predicted;  // a lifetime class; 0: none
  };
  uint64_t time_ns = 0;
  ScratchArray<Row> rows;
  ScratchArray<LifetimeHistogram> histograms;  // as many, for lifetime profiles

  // False: no memory.
  bool Take(const Sampler& sampler, ProfileKind kind, uint64_t now_ns);
};

// Samples younger than this are left out of the fragmentation profile: the background gives memory
// back about once a second, so a block has to outlive a round before it can be in the way of one.
inline constexpr uint64_t kPinningAgeNs = 1'000'000'000;

// Adds the rows of the kind to the writer. `since`: a window's begin, or null for the time since
// the start. False: no memory.
bool AddProfileRows(PprofWriter& writer, ProfileKind kind, const Sampler& sampler,
                    const SampleSnapshot* since, uint64_t now_ns, PinnedBytesOf pinned);

}  // namespace strata
