// When the heap counts as grown: at a part of itself while it is small, at half a MiB later.
#include "heaps/growth.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "span/size_classes.h"

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

constexpr SizeClass kSmallObjects = ClassOfSize(64);
constexpr SizeClass kCostly = ClassOfSize(32 << 10);
constexpr size_t kLargeHeap = (32 << 20) / kPageSize;

TEST(GrowthTest, EightPagesOfASmallHeapCount) {
  Growth growth;
  EXPECT_EQ(GrowthsOf(growth, 128), 16u);
}

TEST(GrowthTest, APartOfALargerHeapCounts) {
  Growth growth;
  growth.Note(Fresh(1200));
  ASSERT_TRUE(growth.Take());
  growth.Note(Fresh(49));
  EXPECT_FALSE(growth.Grew());
  growth.Note(Fresh(1));
  EXPECT_TRUE(growth.Take());
}

// However much was taken, released and taken again before.
TEST(GrowthTest, HalfAMebibyteCountsAlways) {
  Growth growth;
  growth.Note(Fresh(size_t{1} << 30));
  ASSERT_TRUE(growth.Take());
  growth.Note(Fresh(63));
  EXPECT_FALSE(growth.Grew());
  growth.Note(Fresh(1));
  EXPECT_TRUE(growth.Take());
}

TEST(GrowthTest, SpansOnUsedMemoryCountInASmallHeap) {
  Growth growth;
  growth.NoteSpan(Fresh(1), kSmallObjects, Pages(1));
  ASSERT_TRUE(growth.Take());
  growth.NoteSpan(Used(7), kSmallObjects, Pages(1));
  EXPECT_FALSE(growth.Grew());
  growth.NoteSpan(Used(1), kSmallObjects, Pages(1));
  EXPECT_TRUE(growth.Take());
}

TEST(GrowthTest, ACostlySpanForOneThatCameBackDoesntCount) {
  Growth growth;
  growth.NoteSpan(Fresh(1), kSmallObjects, Pages(1));
  ASSERT_TRUE(growth.Take());
  growth.NoteSpanGiven(kSmallObjects);
  growth.NoteSpanGiven(kCostly);
  growth.NoteSpan(Used(100), kCostly, Pages(1));
  EXPECT_FALSE(growth.Grew());
  growth.NoteSpan(Used(7), kCostly, Pages(1));
  EXPECT_FALSE(growth.Grew());
  growth.NoteSpan(Used(1), kSmallObjects, Pages(1));
  ASSERT_TRUE(growth.Grew());
  growth.NoteSpanGiven(kCostly);
  ASSERT_TRUE(growth.Take());  // which forgets what came before
  growth.NoteSpan(Used(8), kCostly, Pages(1));
  EXPECT_TRUE(growth.Grew());
}

TEST(GrowthTest, SpansOnUsedMemoryDontCountWhileMuchLiesFree) {
  Growth growth;
  growth.NoteSpan(Fresh(100), kSmallObjects, Pages(100));
  ASSERT_TRUE(growth.Take());
  growth.NoteSpan(Used(50), kSmallObjects, Pages(79));
  EXPECT_FALSE(growth.Grew());
  growth.NoteSpan(Used(50), kSmallObjects, Pages(80));
  EXPECT_TRUE(growth.Grew());
}

TEST(GrowthTest, FreshMemoryAloneCountsInALargeHeap) {
  Growth growth;
  growth.NoteSpan(Fresh(kLargeHeap - 1), kCostly, Pages(kLargeHeap));
  EXPECT_TRUE(growth.IsSmall());
  growth.NoteSpan(Fresh(1), kSmallObjects, Pages(kLargeHeap));
  EXPECT_FALSE(growth.IsSmall());
  ASSERT_TRUE(growth.Take());
  growth.NoteSpan(Used(1000), kSmallObjects, Pages(kLargeHeap));
  EXPECT_FALSE(growth.Grew());
  growth.NoteSpan(Fresh(64), kSmallObjects, Pages(kLargeHeap));
  EXPECT_TRUE(growth.Grew());
}

}  // namespace
}  // namespace strata::test
