// TrackerLists: the ranks of the paper, and the way a tracker moves between kinds.
#include "hugepage/tracker_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <vector>

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
  few.Init(HugePageId(0), HugeTracker::Memory::kZero);
  many.Init(HugePageId(1), HugeTracker::Memory::kZero);
  few.TakeAt(0, 40);
  for (size_t i = 0; i < 40; ++i) many.TakeAt(i, 1);
  lists.Add(&few);
  lists.Add(&many);
  EXPECT_EQ(lists.Find({L::kRegular}, 10), &many);
  many.Give(39, 1);  // a longer run is a worse fit
  lists.Update(&many);
  EXPECT_EQ(lists.Find({L::kRegular}, 10), &few);
  EXPECT_EQ(lists.Find({L::kRegular}, 217), &many);
  EXPECT_EQ(lists.Find({L::kRegular}, 218), nullptr);
}

TEST(TrackerLists, BrokenOnesChangeTheirKind) {
  test::TestArena meta;
  L lists(meta.arena());
  ASSERT_TRUE(lists.Prepare());
  HugeTracker t;
  t.Init(HugePageId(0), HugeTracker::Memory::kZero);
  t.TakeAt(0, 1);
  lists.Add(&t);
  t.broken = true;
  lists.Update(&t);
  EXPECT_EQ(lists.count({L::kPartial}), 1u);
  t.NoteReleased(t.FreeBacked());
  lists.Update(&t);
  EXPECT_EQ(lists.count({L::kReleased}), 1u);
  EXPECT_EQ(lists.Find({L::kReleased}, 255), &t);
  lists.Remove(&t);
  EXPECT_EQ(lists.count({L::kReleased}), 0u);
}

alignas(kNativePageSize) char g_memory[size_t{512} << 10];

// As in a small program: it finds, counts and changes as those on lists do.
TEST(TrackerLists, OneAloneTouchesNoList) {
  MetadataArena arena([](size_t bytes) -> void* {
    return bytes <= sizeof(g_memory) ? static_cast<void*>(g_memory) : nullptr;
  });
  const auto is_touched = [] {
    return std::any_of(std::begin(g_memory), std::end(g_memory), [](char c) { return c != 0; });
  };
  L lists(arena);
  ASSERT_TRUE(lists.Prepare());
  HugeTracker one, other;
  one.Init(HugePageId(0), HugeTracker::Memory::kZero);
  other.Init(HugePageId(1), HugeTracker::Memory::kZero);
  one.TakeAt(0, 40);
  lists.Add(&one);
  one.TakeAt(40, 6);
  lists.Update(&one);
  EXPECT_EQ(lists.Find({L::kRegular}, 210), &one);
  EXPECT_EQ(lists.Find({L::kRegular}, 211), nullptr);
  EXPECT_EQ(lists.Find({L::kPartial}, 1), nullptr);
  const auto any = [](const HugeTracker&) { return true; };
  EXPECT_EQ(lists.FindIn({L::kRegular}, any), &one);
  size_t seen = 0, steps = 2, looks = 0;
  lists.ForEach({L::kRegular}, [&seen](HugeTracker*) { ++seen; });
  EXPECT_EQ(seen, 1u);
  const auto look = [&](uint32_t round) {
    lists.Look({L::kRegular}, round, steps, [&](HugeTracker& t) { looks += &t == &one; });
  };
  for (int i = 0; i < 2; ++i) look(7);
  EXPECT_EQ(looks, 1u);
  EXPECT_EQ(steps, 1u);
  look(8);
  EXPECT_EQ(looks, 2u);
  look(9);
  EXPECT_EQ(looks, 2u) << "no step is left";
  lists.Remove(&one);
  EXPECT_EQ(lists.Find({L::kRegular}, 1), nullptr);
  lists.Add(&one);
  EXPECT_FALSE(is_touched());

  other.TakeAt(0, 100);
  lists.Add(&other);
  EXPECT_TRUE(is_touched());
  EXPECT_EQ(lists.count({L::kRegular}), 2u);
  EXPECT_EQ(lists.Find({L::kRegular}, 150), &other);
  EXPECT_EQ(lists.Find({L::kRegular}, 160), &one);
  lists.Remove(&other);
  EXPECT_EQ(lists.Find({L::kRegular}, 150), &one);
}

// Trackers with one run each, of so many pages.
struct TrackerListsTest : testing::Test {
  TrackerListsTest() { EXPECT_TRUE(lists.Prepare()); }
  HugeTracker* Add(size_t used, bool broken = false) {
    trackers.emplace_back().Init(HugePageId(trackers.size()), HugeTracker::Memory::kZero);
    HugeTracker* t = &trackers.back();
    t->TakeAt(0, used);
    t->broken = broken;
    lists.Add(t);
    return t;
  }
  std::vector<HugeTracker*> Ranked(L::Sort sort = L::kWhole) {
    std::vector<HugeTracker*> all;
    lists.ForRanks(sort, [&](HugeTracker* t, size_t) {
      all.push_back(t);
      return true;
    });
    return all;
  }
  // The trackers that are looked at in a row.
  std::vector<HugeTracker*> LookedAt(uint32_t round, size_t steps) {
    std::vector<HugeTracker*> all;
    lists.Look({L::kRegular}, round, steps, [&](HugeTracker& t) { all.push_back(&t); });
    return all;
  }

  test::TestArena meta;
  L lists{meta.arena()};
  std::deque<HugeTracker> trackers;
};

TEST_F(TrackerListsTest, BrokenOnesAreRankedApartFromWholeOnes) {
  HugeTracker* whole = Add(1);
  HugeTracker* broken = Add(100, true);
  EXPECT_EQ(Ranked(L::kBroken), std::vector<HugeTracker*>{broken});
  EXPECT_EQ(Ranked(), std::vector<HugeTracker*>{whole});
}

TEST_F(TrackerListsTest, WithinARankThoseAreFirstThatCameFirst) {
  HugeTracker* a = Add(40);
  HugeTracker* b = Add(41);
  HugeTracker* c = Add(40);
  EXPECT_EQ(Ranked(), (std::vector<HugeTracker*>{a, b, c}));
  a->TakeAt(41, 1);
  lists.Update(a);
  EXPECT_EQ(Ranked(), (std::vector<HugeTracker*>{a, b, c})) << "of the same rank still";
}

TEST_F(TrackerListsTest, TheRankFollowsTheUse) {
  HugeTracker* a = Add(40);
  HugeTracker* b = Add(60);
  EXPECT_EQ(Ranked(), (std::vector<HugeTracker*>{a, b}));
  // Its hole is filled: the same longest run, the same few allocations, more pages in use.
  HugeTracker* c = Add(100);
  c->Give(0, 100);
  c->TakeAt(99, 1);  // free: 99 and 156
  lists.Update(c);
  EXPECT_EQ(Ranked(), (std::vector<HugeTracker*>{c, a, b}));
  c->TryGrow(99, 1, 1);
  c->Give(99, 1);
  c->TakeAt(0, 100);
  lists.Update(c);
  EXPECT_EQ(Ranked(), (std::vector<HugeTracker*>{a, b, c}));
}

TEST_F(TrackerListsTest, ASearchForARunDoesNotLeaveItsKind) {
  HugeTracker* regular = Add(200);  // 56 free
  HugeTracker* partial = Add(10, true);
  EXPECT_EQ(lists.Find({L::kRegular}, 57), nullptr);
  EXPECT_EQ(lists.Find({L::kRegular}, 56), regular);
  EXPECT_EQ(lists.Find({L::kPartial}, 57), partial);
}

TEST_F(TrackerListsTest, LooksAtEachOnceARound) {
  for (const size_t used : {10, 10, 50, 90, 90, 90}) Add(used);
  EXPECT_EQ(LookedAt(1, 100).size(), 6u);
  EXPECT_TRUE(LookedAt(1, 100).empty());
  EXPECT_EQ(LookedAt(2, 100).size(), 6u);
}

// Others have their turn: a round that broke off goes on behind the list where it stopped, and
// within a list with those that waited longest.
TEST_F(TrackerListsTest, RoundsOfFewStepsComeToAll) {
  for (const size_t used : {10, 10, 10, 50, 50, 90, 90, 90}) Add(used);
  std::map<HugeTracker*, int> looks;
  for (uint32_t round = 1; round <= 40; ++round) {
    const std::vector<HugeTracker*> some = LookedAt(round, 2);
    EXPECT_LE(some.size(), 2u);
    for (HugeTracker* t : some) ++looks[t];
  }
  for (HugeTracker& t : trackers) EXPECT_GE(looks[&t], 5) << t.page().raw();
}

}  // namespace
}  // namespace strata
