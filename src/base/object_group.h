// The group of a small object: objects of a group lie in spans that hold no others, so that pages
// are hot or cold as a whole. A group is what a hint says of the object's use, or its calling
// context with STRATA_CONTEXTS (after Jenga, arXiv 2510.22869: regions by a hash of the context).
// Sits in base because every tier below malloc speaks of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/placement.h"

namespace strata {

// From kFirstContext on, one for each context.
enum class ObjectGroup : uint8_t { kNone, kHot, kCold, kFirstContext };

inline constexpr size_t kMostContexts = 64;
inline constexpr size_t kNumObjectGroups =
    static_cast<size_t>(ObjectGroup::kFirstContext) + kMostContexts;

constexpr size_t Raw(ObjectGroup g) { return static_cast<size_t>(g); }

constexpr ObjectGroup ContextGroup(size_t context) {
  return static_cast<ObjectGroup>(Raw(ObjectGroup::kFirstContext) + context);
}

constexpr ObjectGroup GroupOf(Hotness hotness) {
  return hotness == Hotness::kHot    ? ObjectGroup::kHot
         : hotness == Hotness::kCold ? ObjectGroup::kCold
                                     : ObjectGroup::kNone;
}

}  // namespace strata
