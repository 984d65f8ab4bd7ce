// When the heap counts as grown: at each fresh page while it is small, at a part of itself later.
#include "heaps/growth.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

PageRun Fresh(size_t pages) { return {{PageId(0), Pages(pages)}, true, false}; }
PageRun Used(size_t pages) { return {{PageId(0), Pages(pages)}, false, false}; }

// Notes n fresh pages, one at a time, and takes each growth at once; how many there were.
size_t GrowthsOf(Growth& growth, size_t n) {
  size_t taken = 0;
  for (size_t i = 0; i < n; ++i) {
    growth.Note(Fresh(1));
    taken += growth.Take();
  }
  return taken;
}

TEST(GrowthTest, OnlyFreshMemoryCounts) {
  Growth growth;
  EXPECT_FALSE(growth.Grew());
  EXPECT_FALSE(growth.Take());
  growth.Note(Used(1000));
  EXPECT_FALSE(growth.Grew());
  growth.Note(Fresh(1));
  EXPECT_TRUE(growth.Grew());
}

TEST(GrowthTest, IsTakenOnce) {
  Growth growth;
  growth.Note(Fresh(5));
  EXPECT_TRUE(growth.Take());
  EXPECT_FALSE(growth.Grew());
  EXPECT_FALSE(growth.Take());
}

TEST(GrowthTest, EachPageOfASmallHeapCounts) {
  Growth growth;
  EXPECT_EQ(GrowthsOf(growth, 128), 128u);
}

TEST(GrowthTest, APartOfALargerHeapCounts) {
  Growth growth;
  growth.Note(Fresh(6400));
  ASSERT_TRUE(growth.Take());
  growth.Note(Fresh(50));
  EXPECT_FALSE(growth.Grew());
  growth.Note(Fresh(1));
  EXPECT_TRUE(growth.Take());
}

// However much was taken, released and taken again before.
TEST(GrowthTest, HalfAMebibyteCountsAlways) {
  Growth growth;
  growth.Note(Fresh(size_t{1} << 30));
  ASSERT_TRUE(growth.Take());
  growth.Note(Fresh(64));
  EXPECT_FALSE(growth.Grew());
  growth.Note(Fresh(1));
  EXPECT_TRUE(growth.Take());
}

}  // namespace
}  // namespace strata::test
