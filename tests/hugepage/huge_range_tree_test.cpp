// HugeRangeTree: which range is taken, also at an alignment, and that neighbours become one.
#include "hugepage/huge_range_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "test_arena.h"

namespace strata {
namespace {

constexpr size_t kWindow = 16'384;

struct HugeRangeTreeTest : testing::Test {
  HugeRangeTreeTest() { EXPECT_TRUE(map.Cover({HugePageId(0), HugePages(kWindow)})); }

  void Insert(size_t first, size_t n) { tree.Insert({HugePageId(first), HugePages(n)}); }
  // The first of n hugepages; kWindow when there are none.
  static size_t Take(HugeRangeTree& from, HugePageMap& map, size_t n, size_t align = 1) {
    const HugeRange r = from.Take(HugePages(n), HugePages(align));
    if (r.empty()) return kWindow;
    EXPECT_EQ(r.length, HugePages(n));
    map.SetState(r, HugePageState::kLarge);
    return r.first.raw();
  }
  size_t Take(size_t n, size_t align = 1) { return Take(tree, map, n, align); }
  std::vector<HugeRange> All() {
    std::vector<HugeRange> all;
    tree.ForEach([&](HugeRange r) { all.push_back(r); });
    return all;
  }

  test::TestArena meta;
  HugePageMap map{meta.arena(), HugePages(kWindow)};
  HugeRangeTree tree{map, HugePageState::kFree};
};

// With three ranges nothing can hide behind another, wherever they lie in the tree.
TEST_F(HugeRangeTreeTest, OfThreeRangesTheShortestThatFitsIsTaken) {
  for (size_t base = 0; base < 200; base += 7) {
    std::vector<size_t> lengths = {2, 4, 9};
    do {
      for (const size_t n : {1, 2, 3, 4, 5, 9}) {
        HugeRangeTree three(map, HugePageState::kFree);
        size_t wanted = 3;
        for (size_t i = 0; i < 3; ++i) {
          three.Insert({HugePageId(base + i * 20), HugePages(lengths[i])});
          if (lengths[i] >= n && (wanted == 3 || lengths[i] < lengths[wanted])) wanted = i;
        }
        EXPECT_EQ(three.longest(), HugePages(9));
        ASSERT_EQ(Take(three, map, n), base + wanted * 20) << base << " " << n;
        lengths[wanted] -= n;
        EXPECT_EQ(three.longest(), HugePages(std::max({lengths[0], lengths[1], lengths[2]})));
        lengths[wanted] += n;
        map.SetState({HugePageId(0), HugePages(400)}, HugePageState::kUnmapped);
      }
    } while (std::next_permutation(lengths.begin(), lengths.end()));
  }
}

TEST_F(HugeRangeTreeTest, OfEqualRangesTheLowestIsTaken) {
  for (size_t low = 0; low < 100; ++low) {
    for (size_t high = low + 4; high < 120; high += 5) {
      HugeRangeTree two(map, HugePageState::kFree);
      two.Insert({HugePageId(high), HugePages(3)});
      two.Insert({HugePageId(low), HugePages(3)});
      ASSERT_EQ(Take(two, map, 3), low) << high;
      map.SetState({HugePageId(0), HugePages(200)}, HugePageState::kUnmapped);
    }
  }
}

TEST_F(HugeRangeTreeTest, NeighboursBecomeOne) {
  Insert(10, 5);
  Insert(20, 5);
  Insert(15, 5);
  ASSERT_EQ(All().size(), 1u);
  EXPECT_EQ(All()[0], (HugeRange{HugePageId(10), HugePages(15)}));
  EXPECT_EQ(tree.longest(), HugePages(15));
  EXPECT_EQ(tree.total(), HugePages(15));
  EXPECT_EQ(tree.LengthAt(HugePageId(10)), HugePages(15));
  // A neighbour in another state is none.
  map.SetState({HugePageId(25), HugePages(1)}, HugePageState::kCached);
  Insert(26, 2);
  EXPECT_EQ(All().size(), 2u);
}

TEST_F(HugeRangeTreeTest, WhatIsCutOffOnBothSidesStays) {
  Insert(3, 30);
  EXPECT_EQ(Take(4, 16), 16u);
  const std::vector<HugeRange> left = {{HugePageId(3), HugePages(13)},
                                       {HugePageId(20), HugePages(13)}};
  EXPECT_EQ(All(), left);
  EXPECT_EQ(tree.total(), HugePages(26));
}

TEST_F(HugeRangeTreeTest, ARangeThatJustFitsItsAlignmentIsFound) {
  Insert(8, 4);
  EXPECT_EQ(Take(4, 8), 8u);
  Insert(21, 7);  // 24 to 27
  EXPECT_EQ(Take(5, 8), kWindow);
  EXPECT_EQ(Take(4, 8), 24u);
}

// Long enough wherever it begins, and no longer than it has to be.
TEST_F(HugeRangeTreeTest, AnAlignedTakeSparesTheLongRanges) {
  for (size_t base = 0; base < 400; base += 40) {
    HugeRangeTree two(map, HugePageState::kFree);
    two.Insert({HugePageId(base), HugePages(20)});
    two.Insert({HugePageId(base + 25), HugePages(8)});  // 5 at a multiple of 4: 8 are sure
    ASSERT_EQ(Take(two, map, 5, 4), base + 28);
    map.SetState({HugePageId(0), HugePages(500)}, HugePageState::kUnmapped);
  }
}

// A window that begins 3 hugepages past a multiple of all alignments.
TEST_F(HugeRangeTreeTest, AlignmentIsThatOfTheAddress) {
  HugeRangeTree biased(map, HugePageState::kFree, 3);
  biased.Insert({HugePageId(0), HugePages(100)});
  EXPECT_EQ(Take(biased, map, 4, 16), 13u);
  EXPECT_EQ(Take(biased, map, 1, 64), 61u);
}

// Nobody waits for a search of all ranges: those at the wrong places are looked at, some of them.
TEST_F(HugeRangeTreeTest, ASearchForAnAlignedPlaceGivesUp) {
  constexpr size_t kRanges = 4000;
  for (size_t i = 0; i < kRanges; ++i) Insert(i * 4 + 1, 2);
  size_t found = 0;
  for (size_t i = kRanges / 2; i < kRanges / 2 + 64; ++i) {
    Insert(i * 4, 1);  // joins the range behind it, which now begins at a multiple of four
    ASSERT_EQ(tree.LengthAt(HugePageId(i * 4)), HugePages(3));
    found += Take(2, 4) != kWindow;
    const HugeRange rest = tree.TakePart(HugePageId(i * 4), {HugePageId(i * 4), HugePages(1)});
    map.SetState(rest, HugePageState::kLarge);
    if (found != 0) break;
  }
  EXPECT_EQ(found, 0u);
  EXPECT_EQ(Take(2), 1u);
}

// Blocks of one size, of which every so many are freed: a tree whose priorities followed the
// distance was a list, and ended the process at its 257th range.
TEST(HugeRangeTreeDepthTest, RangesAtRegularDistancesMakeNoList) {
  constexpr size_t kRanges = 1500, kLongest = 233;
  for (const size_t distance : {2, 3, 5, 8, 13, 21, 34, 55, 72, 89, 144, 233}) {
    for (const size_t bias : {0, 1, 300}) {
      test::TestArena meta;
      HugePageMap map{meta.arena(), HugePages(kRanges * kLongest)};
      ASSERT_TRUE(map.Cover({HugePageId(0), HugePages(kRanges * distance)}));
      HugeRangeTree tree(map, HugePageState::kFree, bias);
      for (size_t i = 0; i < kRanges; ++i) tree.Insert({HugePageId(i * distance), HugePages(1)});
      for (size_t i = 0; i < kRanges; i += 2)
        EXPECT_EQ(tree.TakePart(HugePageId(i * distance), {HugePageId(i * distance), HugePages(1)}),
                  (HugeRange{HugePageId(i * distance), HugePages(1)}));
      EXPECT_EQ(tree.total(), HugePages(kRanges / 2));
    }
  }
}

}  // namespace
}  // namespace strata
