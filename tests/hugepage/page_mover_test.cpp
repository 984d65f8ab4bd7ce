// PageMover: what moves by page tables, what becomes of the hugepages it left, and when nothing
// does.
#include "hugepage/page_mover.h"

#include <gtest/gtest.h>

#include "test_tiers.h"

namespace strata::test {
namespace {

struct PageMoverTest : TestTiers {
  using TestTiers::TestTiers;

  // A large run of whole hugepages with `tag` at the start of each.
  PageRange AddLarge(size_t hugepages, uint32_t tag) STRATA_REQUIRES(t.lock) {
    const HugeRange r = t.allocator.Take(HugePages(hugepages), HugePages(1));
    t.cache.NoteTaken(r.length, t.CoarseNow());
    t.map.SetState(r, HugePageState::kLarge);
    t.large += r.length;
    t.used += PagesOf(r.length);
    for (size_t h = 0; h < hugepages; ++h)
      kernel.Write((r.first + HugePages(h)).raw() * kNativePerHugePage, tag);
    return {FirstPage(r.first), PagesOf(r.length)};
  }
  uint32_t ReadAt(PageRange r, size_t hugepage) const {
    return kernel.Read((HugePageOf(r.first) + HugePages(hugepage)).raw() * kNativePerHugePage);
  }
  Pages Move(PageRange from, PageRange to) STRATA_REQUIRES(t.lock) {
    return mover.Move(t, from, to);
  }

  PageMover<FakeKernel> mover;
};

TEST_F(PageMoverTest, ContentsMoveAndTheHugePagesTheyLeaveAreFree) {
  LockHolder hold(t.lock);
  const PageRange from = AddLarge(3, 7), to = AddLarge(5, 9);
  const HugePages free = t.allocator.free();
  EXPECT_EQ(Move(from, to), from.length);
  for (size_t h = 0; h < 3; ++h) EXPECT_EQ(ReadAt(to, h), 7u);
  EXPECT_EQ(ReadAt(to, 3), 9u);
  EXPECT_EQ(ReadAt(from, 0), 0u);
  EXPECT_EQ(t.large, HugePages(5));
  EXPECT_EQ(t.allocator.free(), free + HugePages(3));
  EXPECT_EQ(t.map[HugePageOf(from.first)].state, HugePageState::kFree);
  EXPECT_FALSE(kernel.Present(from.first.raw() * kNativePerPage));
}

TEST_F(PageMoverTest, WhatTheKernelLostIsGivenToNobody) {
  LockHolder hold(t.lock);
  const PageRange from = AddLarge(3, 7), to = AddLarge(3, 9);
  const HugePages free = t.allocator.free();
  kernel.lost = {HugePageOf(from.first) + HugePages(1), HugePages(1)};
  EXPECT_EQ(Move(from, to), from.length);
  EXPECT_EQ(ReadAt(to, 1), 7u);
  EXPECT_EQ(t.allocator.free(), free + HugePages(2));
  EXPECT_EQ(t.map[kernel.lost.first].state, HugePageState::kUnmapped);
}

// A signal handler forks in the midst of it: the child counts its moves from none.
TEST_F(PageMoverTest, AChildThatGoesOnWithAMoveHasNoneUnderWay) {
  LockHolder hold(t.lock);
  const PageRange from = AddLarge(1, 7), to = AddLarge(1, 9);
  kernel.on_move = [this]() STRATA_NO_TSA {
    EXPECT_EQ(t.moves, 1u);
    t.moves = 0;
  };
  EXPECT_EQ(Move(from, to), from.length);
  EXPECT_EQ(t.moves, 0u);
}

TEST_F(PageMoverTest, AnUnevenEndStays) {
  LockHolder hold(t.lock);
  const PageRange from = AddLarge(3, 7), to = AddLarge(5, 9);
  EXPECT_EQ(Move({from.first, from.length - Pages(1)}, to), PagesOf(HugePages(2)));
  EXPECT_EQ(ReadAt(from, 2), 7u);
  EXPECT_EQ(ReadAt(to, 2), 9u);
  EXPECT_EQ(t.large, HugePages(6));
}

TEST_F(PageMoverTest, WhatTheKernelDidNotMoveStaysTheRuns) {
  LockHolder hold(t.lock);
  const PageRange from = AddLarge(4, 7), to = AddLarge(4, 9);
  kernel.most_moved = HugePages(1);
  EXPECT_EQ(Move(from, to), PagesOf(HugePages(1)));
  EXPECT_EQ(ReadAt(from, 1), 7u);
  EXPECT_EQ(ReadAt(to, 0), 7u);
  EXPECT_EQ(t.map[HugePageOf(from.first) + HugePages(1)].state, HugePageState::kLarge);
  kernel.most_moved = HugePages(0);
  EXPECT_EQ(Move({from.first + PagesOf(HugePages(1)), PagesOf(HugePages(3))}, to), Pages(0));
  EXPECT_EQ(t.large, HugePages(7));
}

TEST_F(PageMoverTest, HugePagesWithOtherAdviceAreLeftToACopy) {
  LockHolder hold(t.lock);
  const PageRange from = AddLarge(4, 7), to = AddLarge(4, 9);
  t.map[HugePageOf(from.first) + HugePages(2)].no_huge = true;
  EXPECT_EQ(Move(from, to), PagesOf(HugePages(2)));
  t.map[HugePageOf(to.first)].no_huge = true;
  EXPECT_EQ(Move(AddLarge(4, 7), to), Pages(0));
}

struct PageMoverSmallHeapTest : PageMoverTest {
  PageMoverSmallHeapTest() : PageMoverTest(HugePages(8)) {}
};

TEST_F(PageMoverSmallHeapTest, TheStartOfTheHeapMovesOnceItIsAdvisedToo) {
  LockHolder hold(t.lock);
  const PageRange small = AddLarge(8, 7), advised = AddLarge(8, 9);
  ASSERT_TRUE(t.map[HugePageOf(small.first)].unadvised);
  EXPECT_EQ(Move(small, advised), Pages(0));
  EXPECT_EQ(Move(advised, small), Pages(0));
  AddLarge(40, 5);  // the heap grows
  EXPECT_EQ(Move(small, advised), small.length);
}

TEST_F(PageMoverTest, TheLockIsFreeWhileTheKernelWorks) {
  LockHolder hold(t.lock);
  const PageRange from = AddLarge(2, 7), to = AddLarge(2, 9);
  bool was_free = false;
  kernel.on_move = [&]() STRATA_NO_TSA {
    was_free = t.lock.TryAcquire();
    if (was_free) t.lock.Release();
  };
  Move(from, to);
  EXPECT_TRUE(was_free);
}

TEST_F(PageMoverTest, NoMorePlacesThanTheirNumberAllows) {
  LockHolder hold(t.lock);
  PageMover<FakeKernel> few(5);
  const PageRange to = AddLarge(4, 9);
  const auto move = [&](PageRange target)
                        STRATA_NO_TSA { return few.Move(t, AddLarge(4, 7), target); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(move(to), to.length);  // the same ones count once
  EXPECT_EQ(move(AddLarge(4, 9)), PagesOf(HugePages(1)));
  EXPECT_EQ(move(AddLarge(4, 9)), Pages(0));
}

}  // namespace
}  // namespace strata::test
