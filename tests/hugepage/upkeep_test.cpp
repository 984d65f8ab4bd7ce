// Upkeep on hand-filled tiers: what a tick gives back of a working program and of one at rest, what
// a failed request may have given back for it, and what backs memory ahead.
#include "hugepage/upkeep.h"

#include <gtest/gtest.h>

#include "test_tiers.h"

namespace strata {
namespace {

struct UpkeepTest : test::TestTiers {
  // A second in which so many pages are in use.
  Pages Second(Upkeep<FakeKernel>& u, Program program) STRATA_REQUIRES(t.lock) {
    kernel.Advance(1000);
    u.NoteUse(t);
    return u.Tick(t, program == Program::kRests ? CallRate::kIdle : CallRate::kBusy, program);
  }

  HardLimit hard{0};
  SoftLimit soft;
  Upkeep<FakeKernel> upkeep{hard, soft, {}};
};

TEST_F(UpkeepTest, AWorkingProgramKeepsItsPeakAndItsHeadroom) {
  LockHolder hold(t.lock);
  AddToFiller(256);
  AddToCache(7);
  EXPECT_EQ(Second(upkeep, Program::kWorks), PagesOf(HugePages(3))) << "four are headroom";
  EXPECT_EQ(t.cache.size(), HugePages(4));
  EXPECT_EQ(upkeep.last_demand(t), Pages(256));
}

TEST_F(UpkeepTest, OneAtRestKeepsWhatItUses) {
  LockHolder hold(t.lock);
  AddToFiller(256);
  AddToCache(7);
  Pages released;
  for (int s = 0; s < 10; ++s) released += Second(upkeep, Program::kRests);
  EXPECT_EQ(released, PagesOf(HugePages(7)));
  EXPECT_EQ(kernel.physical_bytes(), kHugePageSize);
}

TEST_F(UpkeepTest, EachTickAHugepageHasStoodForOneMore) {
  LockHolder hold(t.lock);
  const HugeTracker* tracker = AddToFiller(100);
  for (uint32_t s = 0; s < 4; ++s) {
    EXPECT_EQ(t.filler.StoodFor(*tracker), s);
    Second(upkeep, s % 2 == 0 ? Program::kWorks : Program::kRests);
  }
}

struct RebuildPartsTest : UpkeepTest {
  static constexpr uint32_t kParts = 10;

  // Hugepages that lack a little, none beside another.
  void AddBroken(size_t n) STRATA_REQUIRES(t.lock) {
    for (size_t i = 0; i < n; ++i) {
      HugeTracker* tracker = AddToFiller(kPagesPerHugePage);
      NativeRange hole{OffsetOf(tracker->page()), kNativePageSize};
      upkeep.releaser(t).ReleaseInUse(t, &hole, 1, Program::kIsShort);
      AddToFiller(kPagesPerHugePage);
    }
  }
  // How many are rebuilt from now on, by the next tick and by so many parts more.
  size_t Rebuilt(size_t parts, Program program = Program::kWorks) STRATA_REQUIRES(t.lock) {
    const size_t before = upkeep.collapsed_total(t);
    upkeep.SetRebuildTime(t, {100'000'000, 100'000'000, 0, kParts});
    Second(upkeep, program);
    while (parts-- != 0) upkeep.RebuildPart(t);
    return upkeep.collapsed_total(t) - before;
  }
};

TEST_F(RebuildPartsTest, FewAreRebuiltOneAtATime) {
  LockHolder hold(t.lock);
  AddBroken(13);
  EXPECT_EQ(Rebuilt(0), 1u);
  EXPECT_TRUE(upkeep.rebuilds(t));
  EXPECT_EQ(Rebuilt(kParts - 1), kParts);
  EXPECT_EQ(Rebuilt(kParts - 1), 2u);
  EXPECT_FALSE(upkeep.rebuilds(t)) << "until the next tick";
}

// Whoever calls need not wake up for more: a quick kernel, and much to do.
TEST_F(RebuildPartsTest, ThereAreNoMorePartsThanAgreed) {
  LockHolder hold(t.lock);
  AddBroken(100);
  Rebuilt(kParts - 2);
  EXPECT_TRUE(upkeep.rebuilds(t));
  EXPECT_FALSE(upkeep.RebuildPart(t));
  EXPECT_FALSE(upkeep.rebuilds(t));
  EXPECT_EQ(Rebuilt(3 * kParts), 2 * kParts);
}

TEST_F(RebuildPartsTest, AllHaveHadTheirTurnAfterFourTicks) {
  LockHolder hold(t.lock);
  AddBroken(4 * kParts * 3);
  EXPECT_EQ(Rebuilt(0), 3u);
  size_t rebuilt = 3;
  for (int i = 0; i < 5; ++i) rebuilt += Rebuilt(kParts - 1);
  EXPECT_EQ(rebuilt, 4 * kParts * 3);
}

// A slow kernel: each part waits until the parts before it have paid for what they did.
TEST_F(RebuildPartsTest, NoPartSpendsTheTimeOfThoseToCome) {
  LockHolder hold(t.lock);
  AddBroken(20);
  kernel.collapse_ns = 20'000'000;  // as much as two parts may take
  EXPECT_EQ(Rebuilt(1), 1u);
  EXPECT_TRUE(upkeep.rebuilds(t));
  EXPECT_EQ(Rebuilt(2), 2u);
  EXPECT_EQ(Rebuilt(20), 5u) << "that was all of the tick's time";
}

TEST_F(RebuildPartsTest, EndsAtRestNearTheSoftLimitAndInAChild) {
  LockHolder hold(t.lock);
  AddBroken(13);
  EXPECT_EQ(Rebuilt(3, Program::kRests), 0u);
  EXPECT_EQ(Rebuilt(0), 1u);
  upkeep.Recover(t);
  EXPECT_FALSE(upkeep.RebuildPart(t));
  EXPECT_EQ(Rebuilt(0), 1u);
  kernel.soft_limit = kernel.physical_bytes() + (3 << 20);
  soft.Look(t, Pages(0), [](Pages) { return size_t{0}; });
  ASSERT_TRUE(soft.near_soft_limit());
  EXPECT_FALSE(upkeep.RebuildPart(t));
}

TEST_F(RebuildPartsTest, ByTheProgramsOwnThreadItIsOnePart) {
  LockHolder hold(t.lock);
  AddBroken(13);
  upkeep.SetRebuildTime(t, {100'000'000, 100'000'000});
  Second(upkeep, Program::kWorks);
  EXPECT_EQ(upkeep.collapsed_total(t), 13u);
}

TEST_F(UpkeepTest, WithoutReleaseATickOnlyKnowsTheDemand) {
  LockHolder hold(t.lock);
  Upkeep<FakeKernel> keeps(hard, soft, {.release = false});
  AddToFiller(256);
  AddToCache(7);
  for (int s = 0; s < 10; ++s) EXPECT_EQ(Second(keeps, Program::kRests), Pages(0));
  EXPECT_EQ(t.cache.size(), HugePages(7));
  EXPECT_EQ(keeps.last_demand(t), Pages(256));
  EXPECT_FALSE(keeps.GrowsFast(t));
}

// Under the hard limit it is told beforehand whether giving back helps.
TEST_F(UpkeepTest, MakesRoomUnderTheHardLimitOnlyWhereThatHelps) {
  LockHolder hold(t.lock);
  AddToFiller(256);
  AddToCache(8);
  hard.Set(9 * kHugePageSize);
  EXPECT_FALSE(hard.Allows(t.Backed() + Pages(256)));
  EXPECT_FALSE(upkeep.MakeRoom(t, PagesOf(HugePages(8)) + Pages(1)));
  EXPECT_EQ(t.cache.size(), HugePages(8)) << "given back in vain";
  EXPECT_TRUE(upkeep.MakeRoom(t, PagesOf(HugePages(2))));
  EXPECT_EQ(t.cache.size(), HugePages(4)) << "two more than asked";
  EXPECT_TRUE(upkeep.MakeRoom(t, PagesOf(HugePages(8)))) << "up to the limit's last page";
}

// Where addresses are out, hugepages that came empty in pieces are joined to what is free.
TEST_F(UpkeepTest, MakesRoomOfRegionsWhereAddressesAreOut) {
  LockHolder hold(t.lock);
  EXPECT_FALSE(upkeep.MakeRoom(t, Pages(1)));
  AddRegion(0);
  EXPECT_TRUE(upkeep.MakeRoom(t, PagesOf(HugePages(1))));
  EXPECT_EQ(t.regions.first(), nullptr);
}

TEST_F(UpkeepTest, BacksNothingAheadThatTheHardLimitForbids) {
  LockHolder hold(t.lock);
  AddToFiller(256);
  t.used = Populator<FakeKernel>::kLeastHeap;
  hard.Set(kHugePageSize);
  t.taken_fresh += 20;
  EXPECT_TRUE(upkeep.PopulateAhead(t, Pages(256))) << "the program grows";
  EXPECT_EQ(kernel.populates, 0u);
  hard.Set(0);
  t.taken_fresh += 20;
  EXPECT_TRUE(upkeep.PopulateAhead(t, Pages(256)));
  EXPECT_EQ(kernel.populates, 1u);
}

}  // namespace
}  // namespace strata
