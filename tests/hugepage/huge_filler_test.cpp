// HugeFiller: the order in which hugepages are given up, what a detached one refuses, and the
// account of donated tails. Random use against a model: huge_filler_program_test.cpp.
#include "hugepage/huge_filler.h"

#include <gtest/gtest.h>

#include <deque>

#include "test_arena.h"

namespace strata {
namespace {

constexpr Placement kLasting{.lifetime = LifetimeClass::kLong};

struct HugeFillerTest : testing::Test {
  HugeFillerTest() { EXPECT_TRUE(filler.Prepare()); }

  // A hugepage of which a run of `used` pages is taken.
  HugeTracker* Add(size_t used, Placement placement = {}) {
    HugeTracker* t = Make();
    filler.Contribute(t, {Pages(used), Pages(1), placement});
    return t;
  }
  HugeTracker* AddTail(size_t head) {
    HugeTracker* t = Make();
    filler.ContributeTail(t, Pages(head));
    return t;
  }
  HugeTracker* Make() {
    trackers.emplace_back().Init(HugePageId(trackers.size()), HugeTracker::Memory::kTouched);
    return &trackers.back();
  }
  HugeTracker* DetachOne() {
    HugeTracker* t = nullptr;
    return Detach(&t, 1) == 1 ? t : nullptr;
  }
  size_t Detach(HugeTracker** out, size_t max) {
    return filler.DetachForRelease(out, max, [](const HugeTracker&) { return true; });
  }
  static PageRange First(HugeTracker* t, size_t pages) { return {t->PageAt(0), Pages(pages)}; }
  void Break(HugeTracker* t) {
    filler.Change(t, [&] { t->broken = true; });
  }

  test::TestArena meta;
  HugeFiller filler{meta.arena()};
  std::deque<HugeTracker> trackers;
};

TEST_F(HugeFillerTest, OfEquallyUsedOnesThoseWithWhatLastsAreReleasedLast) {
  HugeTracker* first = Add(5);
  HugeTracker* lasting = Add(5, kLasting);
  HugeTracker* second = Add(5);
  HugeTracker* other_lasting = Add(5, kLasting);
  HugeTracker* out[4];
  ASSERT_EQ(Detach(out, 2), 2u);
  EXPECT_EQ(out[0]->group, PlacementGroup::kOthers);
  EXPECT_EQ(out[1]->group, PlacementGroup::kOthers);
  EXPECT_EQ(out[0] == first ? out[1] : out[0], second);
  ASSERT_EQ(Detach(out, 4), 2u);
  EXPECT_EQ(out[0] == lasting ? out[1] : out[0], other_lasting);
}

TEST_F(HugeFillerTest, OneWithWhatLastsComesFirstIfItHasFewerUsedPages) {
  Add(6);
  HugeTracker* lasting = Add(5, kLasting);
  EXPECT_EQ(DetachOne(), lasting);
}

TEST_F(HugeFillerTest, BrokenOnesComeFirstAndAlone) {
  Add(1);
  HugeTracker* broken = Add(200);
  Break(broken);
  HugeTracker* out[4];
  ASSERT_EQ(Detach(out, 4), 1u);
  EXPECT_EQ(out[0], broken);
}

// The rank is that of the pages used now, also where the longest free run stays what it was.
TEST_F(HugeFillerTest, AHugepageThatFillsUpIsReleasedLater) {
  HugeTracker* filling = Add(1);
  filling->TakeAt(3, 1);
  filler.Change(filling, [&] { filling->Give(3, 1); });
  HugeTracker* other = Add(20);
  EXPECT_EQ(DetachOne(), filling);
  ASSERT_EQ(filler.Reattach(filling), HugeFiller::Left::kSome);
  // Holes of a page each, and then the holes are filled.
  filler.Change(filling, [&] {
    for (size_t i = 2; i < 120; i += 2) filling->TakeAt(i, 1);
  });
  EXPECT_EQ(DetachOne(), other);
}

TEST_F(HugeFillerTest, OfOneRankThoseGoFirstThatStoodLongest) {
  HugeTracker* first = Add(5);
  HugeTracker* second = Add(5);
  HugeTracker* out[2];
  ASSERT_EQ(Detach(out, 2), 2u);
  EXPECT_TRUE(out[0] == first && out[1] == second);
}

// Those that are not worth it keep nobody from the others.
TEST_F(HugeFillerTest, WhatIsNotWorthItIsPassedOver) {
  for (int i = 0; i < 70; ++i) Break(Add(1));
  HugeTracker* fewest = Add(1);
  HugeTracker* whole = Add(2);
  HugeTracker* out[2];
  ASSERT_EQ(filler.DetachForRelease(
                out, 2, [&](const HugeTracker& t) { return !t.broken && &t != fewest; }),
            1u);
  EXPECT_EQ(out[0], whole);
}

TEST_F(HugeFillerTest, KnowsSinceWhenAHugepageGotNoFuller) {
  HugeTracker* t = Add(4);
  const auto stand = [&] {
    for (int i = 0; i < 3; ++i) filler.EndTick();
    EXPECT_EQ(filler.StoodFor(*t), 3u);
  };
  const auto began_anew = [&] { return filler.StoodFor(*t) == 0; };
  EXPECT_TRUE(began_anew());
  stand();
  const PageRange run = filler.TryTake({Pages(2)}, HugeFiller::Broken::kAvoid).range;
  EXPECT_TRUE(began_anew()) << "taken from";
  stand();
  EXPECT_FALSE(filler.TryGrow(t, First(t, 4), Pages(5)));
  EXPECT_EQ(filler.StoodFor(*t), 3u) << "nothing changed";
  EXPECT_TRUE(filler.TryGrow(t, run, Pages(6)));
  EXPECT_TRUE(began_anew()) << "grown";
  stand();
  filler.Shrink(t, First(t, 4), Pages(3));
  filler.Give(t, {run.first, Pages(6)});
  EXPECT_EQ(filler.StoodFor(*t), 3u) << "it is only emptier";
  filler.Change(t, [&] { t->NoteReleased(t->FreeBacked()); });
  EXPECT_EQ(filler.StoodFor(*t), 3u) << "what the kernel has of it is another matter";
  filler.NoteTouched(t);
  EXPECT_TRUE(began_anew()) << "touched inside its runs";
}

TEST_F(HugeFillerTest, ATailAndOneThatComesWithItsRunsAreNew) {
  for (int i = 0; i < 3; ++i) filler.EndTick();
  EXPECT_EQ(filler.StoodFor(*AddTail(9)), 0u);
  HugeTracker* t = Make();
  t->TakeAt(0, 4);
  filler.Adopt(t);
  EXPECT_EQ(filler.StoodFor(*t), 0u);
}

// Only some candidates are looked at while the lock is held.
TEST_F(HugeFillerTest, ALookAtCandidatesEnds) {
  for (int i = 0; i < 100; ++i) Add(7);
  HugeTracker* best = Add(1);  // at the end of its rank
  HugeTracker* found = DetachOne();
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->used(), 7u);
  EXPECT_NE(found, best);
}

TEST_F(HugeFillerTest, ADetachedHugepageNeitherGrowsNorIsTakenFrom) {
  HugeTracker* t = Add(4);
  ASSERT_EQ(DetachOne(), t);
  EXPECT_FALSE(filler.TryGrow(t, First(t, 4), Pages(8)));
  EXPECT_EQ(filler.used(), Pages(4));
  EXPECT_TRUE(filler.TryTake({Pages(1)}, HugeFiller::Broken::kAllow).range.empty());
  filler.Shrink(t, First(t, 4), Pages(2));
  EXPECT_EQ(filler.used(), Pages(2));
  EXPECT_EQ(filler.Give(t, First(t, 2)), HugeFiller::Left::kSome);
  EXPECT_EQ(filler.Reattach(t), HugeFiller::Left::kNothing);
  EXPECT_EQ(filler.hugepages(), 0u);
}

TEST_F(HugeFillerTest, ATailInWhichARunLandedIsLikeAnyOther) {
  HugeTracker* tail = AddTail(100);
  EXPECT_EQ(filler.count({TrackerLists::kDonated}), 1u);
  const PageRun run = filler.TryTake({Pages(3)}, HugeFiller::Broken::kAvoid);
  EXPECT_EQ(HugePageOf(run.range.first), tail->page());
  EXPECT_FALSE(tail->donated);
  EXPECT_EQ(filler.count({TrackerLists::kDonated}), 0u);
  EXPECT_EQ(filler.count({TrackerLists::kRegular}), 1u);
}

TEST_F(HugeFillerTest, SlackFollowsTheHeadAndAbandonedPagesWhatItLeaves) {
  HugeTracker* tail = AddTail(100);
  EXPECT_EQ(filler.slack(), Pages(156));
  ASSERT_TRUE(filler.TryGrow(tail, First(tail, 100), Pages(120)));
  EXPECT_EQ(filler.slack(), Pages(136));
  filler.Shrink(tail, First(tail, 120), Pages(90));
  EXPECT_EQ(filler.slack(), Pages(166));
  const PageRun run = filler.TryTake({Pages(3)}, HugeFiller::Broken::kAvoid);
  ASSERT_FALSE(run.range.empty());
  EXPECT_EQ(filler.Give(tail, First(tail, 90)), HugeFiller::Left::kSome);
  EXPECT_EQ(filler.slack(), Pages(0));
  EXPECT_EQ(filler.abandoned(), Pages(90));
  EXPECT_EQ(filler.Give(tail, run.range), HugeFiller::Left::kNothing);
  EXPECT_EQ(filler.abandoned(), Pages(0));
}

TEST_F(HugeFillerTest, TheTailIsTakenBackWithItsWholeSlack) {
  HugeTracker* tail = AddTail(100);
  HugeTracker* other = AddTail(50);
  filler.TakeBack(tail);
  EXPECT_EQ(filler.slack(), Pages(206));
  EXPECT_EQ(filler.hugepages(), 1u);
  EXPECT_EQ(filler.used(), Pages(50));
  filler.TakeBack(other);
  EXPECT_EQ(filler.slack(), Pages(0));
}

TEST_F(HugeFillerTest, DiscardingForgetsWhatWasAbandoned) {
  HugeTracker* tail = AddTail(100);
  const PageRun run = filler.TryTake({Pages(3)}, HugeFiller::Broken::kAvoid);
  EXPECT_EQ(filler.Give(tail, First(tail, 100)), HugeFiller::Left::kSome);
  Break(tail);
  EXPECT_EQ(filler.Give(tail, run.range), HugeFiller::Left::kSome);  // broken: it stays
  HugeTracker* out[1] = {};
  ASSERT_EQ(filler.DetachEmpties(out, 1), 1u);
  filler.Discard(out[0]);
  EXPECT_EQ(filler.abandoned(), Pages(0));
  EXPECT_EQ(filler.hugepages(), 0u);
}

}  // namespace
}  // namespace strata
