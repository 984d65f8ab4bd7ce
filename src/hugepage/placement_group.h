// Which runs share hugepages. The filler keeps a set of hugepages for each group; GroupOf alone
// says what belongs to which, so that a new group is a line here and its place in the order. Sits
// in hugepage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/placement.h"

namespace strata {

// In the order in which hugepages are given up where nothing else tells them apart: what lasts
// comes last.
enum class PlacementGroup : uint8_t { kOthers, kLasting };
inline constexpr PlacementGroup kPlacementGroups[] = {PlacementGroup::kOthers,
                                                      PlacementGroup::kLasting};
inline constexpr size_t kNumPlacementGroups = std::size(kPlacementGroups);

// What is taken for lasting: what is said to; what is said to be cold, because compilers say so of
// what lives long and is touched rarely (LLVM's MemProf: 200 s); and with kByDensity dense spans,
// too. Many objects in one are not likely to go all at once (the lifetime-aware filler of Z. Zhou
// et al., "Characterizing a memory allocator at warehouse scale", ASPLOS 2024, section 4.4); on the
// programs of docs/benchmarks/experiments.md that guess costs memory and gains nothing.
enum class FillerGroups : uint8_t { kByDensity, kAsSaid };

constexpr PlacementGroup GroupOf(Placement p, FillerGroups groups = FillerGroups::kAsSaid) {
  const bool is_guessed = groups == FillerGroups::kByDensity && p.density == Density::kDense;
  return is_guessed || p.lifetime >= LifetimeClass::kLong || p.hotness == Hotness::kCold
             ? PlacementGroup::kLasting
             : PlacementGroup::kOthers;
}

}  // namespace strata
