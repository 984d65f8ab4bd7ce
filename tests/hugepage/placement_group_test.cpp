// GroupOf: what shares hugepages with what.
#include "hugepage/placement_group.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(PlacementGroup, MallocWithoutAHintIsAmongTheOthers) {
  EXPECT_EQ(GroupOf({}), PlacementGroup::kOthers);
}

TEST(PlacementGroup, WhatLastsLiesByItself) {
  EXPECT_EQ(GroupOf({.lifetime = LifetimeClass::kForever}), PlacementGroup::kLasting);
  EXPECT_EQ(GroupOf({.lifetime = LifetimeClass::kLong}), PlacementGroup::kLasting);
  EXPECT_EQ(GroupOf({.lifetime = LifetimeClass::kUnder1000S}), PlacementGroup::kOthers);
  EXPECT_EQ(GroupOf({.lifetime = LifetimeClass::kUnder10Ms}), PlacementGroup::kOthers);
}

TEST(PlacementGroup, WhatIsColdLiesWithWhatLasts) {
  for (const Density density : {Density::kSparse, Density::kDense}) {
    EXPECT_EQ(GroupOf({.density = density, .hotness = Hotness::kCold}), PlacementGroup::kLasting);
    EXPECT_EQ(GroupOf({.density = density, .hotness = Hotness::kHot}), PlacementGroup::kOthers);
  }
}

TEST(PlacementGroup, DenseSpansLastOnlyIfThatIsAskedFor) {
  const Placement dense{.density = Density::kDense};
  EXPECT_EQ(GroupOf(dense, FillerGroups::kAsSaid), PlacementGroup::kOthers);
  EXPECT_EQ(GroupOf(dense, FillerGroups::kByDensity), PlacementGroup::kLasting);
  EXPECT_EQ(GroupOf({}, FillerGroups::kByDensity), PlacementGroup::kOthers);
}

}  // namespace
}  // namespace strata
