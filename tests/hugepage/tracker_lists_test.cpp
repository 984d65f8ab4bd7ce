// TrackerLists: the ranks of the paper, and the way a tracker moves between kinds.
#include "hugepage/tracker_lists.h"

#include <gtest/gtest.h>

#include "test_arena.h"

namespace strata {
namespace {

using L = TrackerLists;

TEST(TrackerLists, ChunksHalveTheAllocationCount) {
  const size_t last_of[] = {256, 64, 32, 16, 8, 4, 2, 1};  // the most allocations of chunks 0 to 7
  for (size_t chunk = 0; chunk < 8; ++chunk) {
    EXPECT_EQ(L::ChunkOf(last_of[chunk]), chunk);
    EXPECT_EQ(L::ChunkOf(last_of[chunk] + 1), chunk == 0 ? 0 : chunk - 1);
  }
}

TEST(TrackerLists, AmongEqualRunsTheOneWithMoreAllocationsIsFirst) {
  test::TestArena meta;
  L lists(meta.arena());
  ASSERT_TRUE(lists.Prepare());
  HugeTracker few, many;
  few.Init(HugePageId(0), true);
  many.Init(HugePageId(1), true);
  few.TakeAt(0, 40);
  for (size_t i = 0; i < 40; ++i) many.TakeAt(i, 1);
  lists.Add(&few);
  lists.Add(&many);
  EXPECT_EQ(lists.Find(L::kRegular, 10), &many);
  many.Give(39, 1);  // a longer run is a worse fit
  lists.Update(&many);
  EXPECT_EQ(lists.Find(L::kRegular, 10), &few);
  EXPECT_EQ(lists.Find(L::kRegular, 217), &many);
  EXPECT_EQ(lists.Find(L::kRegular, 218), nullptr);
}

TEST(TrackerLists, BrokenOnesChangeTheirKind) {
  test::TestArena meta;
  L lists(meta.arena());
  ASSERT_TRUE(lists.Prepare());
  HugeTracker t;
  t.Init(HugePageId(0), true);
  t.TakeAt(0, 1);
  lists.Add(&t);
  t.broken = true;
  lists.Update(&t);
  EXPECT_EQ(lists.count(L::kPartial), 1u);
  t.NoteReleased(t.FreeBacked());
  lists.Update(&t);
  EXPECT_EQ(lists.count(L::kReleased), 1u);
  EXPECT_EQ(lists.Find(L::kReleased, 255), &t);
  lists.Remove(&t);
  EXPECT_EQ(lists.count(L::kReleased), 0u);
}

}  // namespace
}  // namespace strata
