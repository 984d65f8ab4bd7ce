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

// kTogether is for experiments: all runs in one group.
enum class FillerGroups : uint8_t { kByLifetime, kTogether };

// Spans of many objects likely stay, so they lie with what is said to (the lifetime-aware filler of
// Z. Zhou et al., "Characterizing a memory allocator at warehouse scale", ASPLOS 2024,
// section 4.4).
constexpr PlacementGroup GroupOf(Placement p, FillerGroups groups = FillerGroups::kByLifetime) {
  if (groups == FillerGroups::kTogether) return PlacementGroup::kOthers;
  const bool lasts = p.density == Density::kDense || p.lifetime >= LifetimeClass::kLong;
  return lasts ? PlacementGroup::kLasting : PlacementGroup::kOthers;
}

}  // namespace strata
