// The state machine of a bin packer, one transition a test, on a clock of ten ticks a class.
#include "lifetime/bin_packer.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace strata::test {
namespace {

// Classes: under 10, under 100, under 1000, longer. K = 2.
constexpr BinPolicy kPolicy{{.base = 10, .ratio = 10, .count = 4}, 2};

template <class Slots>
class Packing {
 public:
  using Packer = BinPacker<Slots>;

  explicit Packing(uint32_t capacity = 64)
      : bins_(capacity), packer_(std::make_unique<Packer>(kPolicy, bins_.data(), capacity)) {}

  PlacedItem Place(Ticks now, uint32_t n, BinClass c, FillOrder order = FillOrder::kLongest) {
    return packer_->Place(now, n, c, order);
  }
  // Fills a bin of the class with one item.
  PlacedItem Full(Ticks now, BinClass c) { return Place(now, Slots::kSlots, c, FillOrder::kNever); }

  Packer& operator*() { return *packer_; }
  Packer* operator->() { return packer_.get(); }
  const PackedBin<Slots>& Bin(const PlacedItem& item) const { return packer_->bin(item.bin); }

 private:
  std::vector<PackedBin<Slots>> bins_;
  std::unique_ptr<Packer> packer_;
};

using Runs = RunSlots<8>;

TEST(BinLadderTest, ClassesAreBoundedByPowersOfTheRatio) {
  const BinLadder ladder{.base = 10, .ratio = 10, .count = 4};
  EXPECT_EQ(ladder.ClassOf(0), 0);
  EXPECT_EQ(ladder.ClassOf(9), 0);
  EXPECT_EQ(ladder.ClassOf(10), 1);
  EXPECT_EQ(ladder.ClassOf(999), 2);
  EXPECT_EQ(ladder.ClassOf(1000), 3);
  EXPECT_EQ(ladder.ClassOf(kNoTick), 3);
  EXPECT_EQ(ladder.Bound(3), kNoTick);
}

TEST(BinLadderTest, BoundsBeyondTheClockAreItsEnd) {
  const BinLadder ladder{.base = kNoTick / 2, .ratio = 1000, .count = 16};
  EXPECT_TRUE(ladder.Valid());
  EXPECT_EQ(ladder.Bound(1), kNoTick);
  EXPECT_EQ(ladder.ClassOf(kNoTick), 15);
}

TEST(BinPackerTest, ItemsOfOneClassShareAnOpenBin) {
  Packing<Runs> p;
  const PlacedItem a = p.Place(0, 3, 1), b = p.Place(0, 3, 1), other = p.Place(0, 3, 2);
  EXPECT_EQ(a.bin, b.bin);
  EXPECT_NE(a.bin, other.bin);
  EXPECT_EQ(b.first, 3u);
  EXPECT_EQ(p.Bin(a).state, BinState::kOpen);
  EXPECT_EQ(p.Bin(a).residual, 6u);
}

TEST(BinPackerTest, ABinWhoseSlotsWereAllHandedOutIsActive) {
  Packing<Runs> p;
  const PlacedItem a = p.Full(5, 1);
  EXPECT_EQ(p.Bin(a).state, BinState::kActive);
  EXPECT_EQ(p.Bin(a).deadline, 5u + 2 * 100);
}

TEST(BinPackerTest, ABinIntoWhichTheNextItemDoesNotFitIsActive) {
  Packing<Runs> p;
  const PlacedItem a = p.Place(0, 5, 1), b = p.Place(0, 4, 1);
  EXPECT_NE(a.bin, b.bin);
  EXPECT_EQ(p.Bin(a).state, BinState::kActive);
  EXPECT_EQ(p.Bin(b).state, BinState::kOpen);
}

TEST(BinPackerTest, AnEmptyBinIsReclaimedAtOnceAndUsedAgain) {
  Packing<Runs> p;
  const PlacedItem open = p.Place(0, 2, 1), full = p.Full(0, 1);
  EXPECT_EQ(p->in_use(), 2u);
  EXPECT_TRUE(p->Remove(1, open));
  EXPECT_TRUE(p->Remove(1, full));
  EXPECT_EQ(p->in_use(), 0u);
  EXPECT_EQ(p.Full(2, 3).bin, full.bin);
  EXPECT_EQ(p->touched(), 2u);
}

TEST(BinPackerTest, GapsAreFilledWithItemsOfShorterClassesOnlyWhenOwnOnesWouldOutliveTheDeadline) {
  Packing<Runs> p;
  const PlacedItem gap = p.Place(0, 4, 1, FillOrder::kNever);
  const PlacedItem rest = p.Place(0, 4, 1, FillOrder::kNever);
  ASSERT_EQ(p.Bin(rest).deadline, 200u);
  EXPECT_FALSE(p->Remove(0, gap));
  EXPECT_NE(p.Place(101, 4, 1).bin, rest.bin);
  EXPECT_NE(p.Place(101, 4, 2).bin, rest.bin);
  const PlacedItem filler = p.Place(101, 4, 0);
  EXPECT_EQ(filler.bin, rest.bin);
  EXPECT_EQ(filler.first, gap.first);
  EXPECT_FALSE(p->IsResidual(filler));
  EXPECT_EQ(p.Bin(rest).residual, 4u);
  EXPECT_EQ(p.Bin(rest).live, 8u);
}

TEST(BinPackerTest, OwnItemsFillGapsWhileTheyShouldBeGoneByTheDeadline) {
  Packing<Runs> p;
  const PlacedItem gap = p.Place(0, 4, 1, FillOrder::kNever);
  const PlacedItem rest = p.Place(0, 4, 1, FillOrder::kNever);
  p->Remove(50, gap);
  const PlacedItem own = p.Place(100, 2, 1);
  EXPECT_EQ(own.bin, rest.bin);
  EXPECT_TRUE(p->IsResidual(own));
  EXPECT_EQ(p.Bin(rest).residual, 6u);
  EXPECT_EQ(p.Bin(rest).deadline, 200u);  // as it was
  EXPECT_NE(p.Place(101, 2, 1).bin, rest.bin);
  p->Remove(110, rest);
  EXPECT_EQ(p.Bin(own).lifetime, 1);  // an item of its class is left
  p->Advance(200);
  EXPECT_EQ(p.Bin(own).lifetime, 2);  // it was predicted too short
  EXPECT_EQ(p.Place(250, 2, 2).bin, own.bin);
}

TEST(BinPackerTest, EachBinTakesOwnItemsFromWhenItWasFullHoweverOthersGo) {
  Packing<Runs> p;
  PlacedItem stay[3], go[3];
  for (int i = 0; i < 3; ++i) {
    stay[i] = p.Place(static_cast<Ticks>(10 * i), 4, 1, FillOrder::kNever);
    go[i] = p.Place(static_cast<Ticks>(10 * i), 4, 1, FillOrder::kNever);
  }
  p->Remove(30, stay[0]);
  EXPECT_TRUE(p->Remove(30, go[0]));  // the oldest bin is gone, and one of another class now
  ASSERT_EQ(p.Full(30, 2).bin, stay[0].bin);
  p->Remove(30, go[1]);
  p->Remove(30, go[2]);
  EXPECT_EQ(p.Place(115, 4, 1).bin, stay[2].bin);  // the next is too old, the last is not
  EXPECT_NE(p.Place(115, 4, 1).bin, stay[1].bin);
  EXPECT_EQ(p.Place(115, 4, 0).bin, stay[1].bin);
}

TEST(BinPackerTest, GapsOfTheLongestClassAreForItsOwnItemsToo) {
  Packing<Runs> p;
  const PlacedItem stays = p.Place(0, 4, 3, FillOrder::kNever);
  const PlacedItem goes = p.Place(0, 4, 3, FillOrder::kNever);
  p->Remove(1, goes);
  const PlacedItem own = p.Place(2, 4, 3);
  EXPECT_EQ(own.bin, stays.bin);
  EXPECT_TRUE(p->IsResidual(own));
  p->Remove(3, stays);
  EXPECT_EQ(p.Bin(own).lifetime, 3);  // an item of its class is left
  EXPECT_EQ(p.Bin(own).residual, 4u);
}

TEST(BinPackerTest, WithoutAGapNothingIsPlacedInOne) {
  Packing<Runs> p;
  const PlacedItem a = p.Place(0, 6, 2, FillOrder::kNever), b = p.Place(0, 2, 2, FillOrder::kNever);
  EXPECT_FALSE(p->PlaceInGap(0, 2, 1, FillOrder::kNearest).placed());
  p->Remove(0, b);
  EXPECT_FALSE(p->PlaceInGap(0, 3, 1, FillOrder::kNearest).placed());
  EXPECT_FALSE(p->PlaceInGap(0, 2, 3, FillOrder::kNearest).placed());
  EXPECT_EQ(p->PlaceInGap(0, 2, 1, FillOrder::kNearest).bin, a.bin);
  EXPECT_EQ(p->in_use(), 1u);
}

TEST(BinPackerTest, AnItemInPiecesLeavesNoRestInOpenBins) {
  Packing<Runs> p;
  EXPECT_EQ(p->OpenRoom(1, 20), 8u);
  const PlacedItem a = p.Place(0, 5, 1);
  EXPECT_EQ(p->OpenRoom(1, 2), 2u);
  ASSERT_EQ(p->OpenRoom(1, 20), 3u);
  EXPECT_EQ(p.Place(0, 3, 1, FillOrder::kNever).bin, a.bin);
  EXPECT_EQ(p.Bin(a).slots.Fit(), 0u);
  EXPECT_EQ(p->OpenRoom(1, 20), 8u);
  EXPECT_EQ(p->OpenRoom(200, 20), 8u);  // the longest
}

TEST(BinPackerTest, AnItemInPiecesGoesOnOnlyFromABinsEnd) {
  Packing<Runs> p;
  const PlacedItem a = p.Place(0, 2, 1, FillOrder::kNever);
  const PlacedItem shorter = p.Place(0, 1, 0);
  ASSERT_EQ(shorter.bin, a.bin);
  EXPECT_EQ(p->OpenRoom(1, 5), 5u);  // all of it fits before the other
  EXPECT_EQ(p->OpenRoom(1, 6), 6u);  // in a bin of its own
}

TEST(BinPackerTest, AFewShorterItemsShareAnOpenBinFromItsEnd) {
  Packing<Runs> p;
  const PlacedItem longer = p.Place(0, 2, 2);
  const PlacedItem shorter = p.Place(0, 3, 0);
  EXPECT_EQ(shorter.bin, longer.bin);
  EXPECT_EQ(shorter.first, 5u);
  EXPECT_FALSE(p->IsResidual(shorter));
  EXPECT_EQ(p.Place(0, 1, 2).first, 2u);  // what is handed out goes on
  EXPECT_EQ(p.Place(0, 3, 2, FillOrder::kNever).first, 0u);
  EXPECT_EQ(p.Bin(longer).state, BinState::kActive);
}

TEST(BinPackerTest, WhatIsHandedOutSkipsShorterItems) {
  Packing<Runs> p;
  const PlacedItem longer = p.Place(0, 2, 1, FillOrder::kNever);
  const PlacedItem last = p.Place(0, 3, 0), middle = p.Place(0, 1, 0);
  EXPECT_EQ(middle.first, 4u);
  p->Remove(1, last);
  EXPECT_EQ(p.Place(1, 3, 1).first, 5u);
  EXPECT_EQ(p.Bin(longer).state, BinState::kActive);
}

TEST(BinPackerTest, WhatWouldFillMoreThanABinHasBinsOfItsOwn) {
  Packing<Runs> p;
  const PlacedItem own = p.Place(0, 5, 0);
  const PlacedItem longer = p.Place(0, 1, 2);
  EXPECT_EQ(p.Place(0, 3, 0).bin, longer.bin);  // 8 slots with it
  EXPECT_EQ(p.Place(0, 1, 0).bin, own.bin);
  p->Remove(1, own);
  EXPECT_EQ(p.Place(1, 2, 0).bin, longer.bin);
}

TEST(BinPackerTest, ABinThatClosesWithShorterItemsAloneIsDemoted) {
  Packing<Runs> p;
  const PlacedItem longer = p.Place(0, 4, 3), shorter = p.Place(0, 1, 0);
  p->Remove(5, longer);
  EXPECT_EQ(p.Bin(shorter).state, BinState::kOpen);
  const PlacedItem last = p.Place(5, 7, 0);
  ASSERT_EQ(last.bin, shorter.bin);
  EXPECT_EQ(p.Bin(shorter).state, BinState::kActive);
  EXPECT_EQ(p.Bin(shorter).lifetime, 2);
  EXPECT_EQ(p.Bin(shorter).residual, 8u);
  EXPECT_TRUE(p->IsResidual(last));
  EXPECT_EQ(p->stats().demoted, 1u);
}

TEST(BinPackerTest, TheNearestOrTheLongestClassIsFilledFirst) {
  for (const FillOrder order : {FillOrder::kNearest, FillOrder::kLongest}) {
    Packing<Runs> p;
    PlacedItem kept[4];
    for (const BinClass c : {1, 2, 3}) {
      const PlacedItem gap = p.Place(0, 4, c, FillOrder::kNever);
      kept[c] = p.Place(0, 4, c, FillOrder::kNever);
      p->Remove(0, gap);
    }
    const BinClass first = order == FillOrder::kNearest ? 1 : 3;
    EXPECT_EQ(p.Place(0, 4, 0, order).bin, kept[first].bin);
    EXPECT_EQ(p.Place(0, 4, 0, order).bin, kept[2].bin);
    EXPECT_EQ(p.Place(0, 4, 0, order).bin, kept[4 - first].bin);
  }
}

TEST(BinPackerTest, TheShortestGapThatIsLongEnoughIsFilled) {
  Packing<Runs> p;
  std::vector<PlacedItem> items;
  for (int i = 0; i < 8; ++i) items.push_back(p.Place(0, 1, 1, FillOrder::kNever));
  for (const int i : {0, 1, 2, 4, 5}) p->Remove(0, items[static_cast<size_t>(i)]);
  EXPECT_EQ(p.Place(0, 2, 0).first, 4u);
  EXPECT_EQ(p.Place(0, 3, 0).first, 0u);
}

TEST(BinPackerTest, ABinWithoutResidualItemsIsDemotedAndTheRestIsResidual) {
  Packing<Runs> p;
  const PlacedItem a = p.Place(0, 4, 2), b = p.Place(0, 4, 2);
  p->Remove(0, a);
  const PlacedItem filler = p.Place(0, 4, 0);
  ASSERT_EQ(filler.bin, b.bin);
  EXPECT_FALSE(p->Remove(7, b));
  EXPECT_EQ(p.Bin(filler).lifetime, 1);
  EXPECT_EQ(p.Bin(filler).residual, 4u);
  EXPECT_TRUE(p->IsResidual(filler));
  EXPECT_EQ(p.Bin(filler).deadline, 7u + 2 * 100);
  EXPECT_EQ(p->stats().demoted, 1u);
  EXPECT_TRUE(p->Remove(8, filler));
}

TEST(BinPackerTest, ABinWhoseDeadlinePassesIsPromotedUpToTheLongestClass) {
  Packing<Runs> p;
  const PlacedItem a = p.Full(0, 0);
  p->Advance(19);
  EXPECT_EQ(p.Bin(a).lifetime, 0);
  p->Advance(20);
  EXPECT_EQ(p.Bin(a).lifetime, 1);
  EXPECT_EQ(p.Bin(a).residual, 8u);
  EXPECT_EQ(p.Bin(a).deadline, 20u + 200);
  p->Advance(220);
  p->Advance(2'220);
  EXPECT_EQ(p.Bin(a).lifetime, 3);
  p->Advance(kNoTick);
  EXPECT_EQ(p.Bin(a).lifetime, 3);
  EXPECT_EQ(p->stats().promoted, 3u);
}

TEST(BinPackerTest, AnOpenBinHasNoDeadline) {
  Packing<Runs> p;
  const PlacedItem a = p.Place(0, 1, 0);
  p->Advance(1'000'000);
  EXPECT_EQ(p.Bin(a).lifetime, 0);
  EXPECT_EQ(p.Bin(a).state, BinState::kOpen);
}

TEST(BinPackerTest, AClockThatJumpsBackNeitherExpiresNorFreezesDeadlines) {
  Packing<Runs> p;
  const PlacedItem a = p.Full(1'000, 0);
  p->Advance(3);
  EXPECT_EQ(p.Bin(a).lifetime, 0);
  p->Advance(22);
  EXPECT_EQ(p.Bin(a).lifetime, 0);
  p->Advance(23);  // 20 ticks after the jump
  EXPECT_EQ(p.Bin(a).lifetime, 1);
}

TEST(BinPackerTest, WithoutAFreeBinNothingIsPlacedAndNothingChanges) {
  Packing<Runs> p(1);
  const PlacedItem a = p.Place(0, 5, 1);
  EXPECT_FALSE(p.Place(0, 5, 1).placed());
  EXPECT_FALSE(p.Place(0, 1, 2).placed());
  EXPECT_EQ(p.Bin(a).state, BinState::kOpen);
  EXPECT_EQ(p.Place(0, 3, 1).bin, a.bin);
  EXPECT_EQ(p->unused(), 0u);
}

TEST(BinPackerTest, ClassesBeyondTheLadderAreTheLongest) {
  Packing<Runs> p;
  EXPECT_EQ(p.Bin(p.Place(0, 1, 200)).lifetime, 3);
}

TEST(BinPackerTest, CountedSlotsFitWhereverTheyAre) {
  Packing<CountedSlots<8>> p;
  std::vector<PlacedItem> items;
  for (int i = 0; i < 8; ++i) items.push_back(p.Place(0, 1, 1, FillOrder::kNever));
  for (const size_t i : {0, 2, 4}) p->Remove(0, items[i]);
  EXPECT_EQ(p.Place(0, 3, 0).bin, items[1].bin);
  EXPECT_NE(p.Place(0, 1, 0).bin, items[1].bin);
}

TEST(BinPackerTest, AppendOnlySlotsAreNeverFilledAgain) {
  Packing<AppendSlots<8>> p;
  const PlacedItem a = p.Place(0, 4, 1), b = p.Place(0, 4, 1);
  EXPECT_FALSE(p->Remove(0, a));
  EXPECT_NE(p.Place(0, 1, 0).bin, b.bin);
  EXPECT_TRUE(p->Remove(0, b));
}

}  // namespace
}  // namespace strata::test
