// Heaps that borrow: one that would make the whole hold more than ever takes a superblock that
// another processor hardly uses. One thread plays the processors.
#include <vector>

#include "hoard_checks.h"

namespace strata::layers {
namespace {

constexpr size_t kUnit = 8192;

struct Borrowing : HoardTraits<kUnit> {
  static constexpr size_t heaps = 8;
  static constexpr size_t shards = 2;
  static constexpr size_t spares = 0;
  static constexpr size_t kept = 0;
  static constexpr size_t borrows_from = 1;
  using Which = PlayedProcessor;
};
struct FromThree : Borrowing {
  static constexpr size_t borrows_from = 3;
};
struct Sparing : Borrowing {
  static constexpr size_t spares = 1;
};
struct Keeping : Borrowing {
  static constexpr size_t kept = 1;
};
using Source = CountingSource<kUnit>;
template <class Traits>
using HeapOf = Stack<Hoard<Traits>, Ref<Source>>;

constexpr size_t kSize = 256;
constexpr size_t kObjects = HeapOf<Borrowing>::Block::CapacityFor(kSize);
// As little is parted with as can be, so that what a heap has is what it may lend.
constexpr HoardThresholds kHolding{.empty_sixteenths = 1, .slack = 8};

class HoardBorrow : public testing::Test {
 protected:
  HoardBorrow() { PlayedProcessor::who = 0; }
  ~HoardBorrow() override { PlayedProcessor::who = 0; }

  template <class H>
  std::vector<void*> TakeAs(size_t who, H& heap, size_t n) {
    PlayedProcessor::who = who;
    std::vector<void*> blocks(n);
    for (void*& p : blocks) p = heap.allocate(kSize);
    return blocks;
  }
  // The first `freed` of each superblock's blocks, as far as they came from whole superblocks.
  template <class H>
  void FreeOfEach(H& heap, const std::vector<void*>& blocks, size_t freed) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % kObjects < freed) heap.deallocate(blocks[i]);
    }
  }
  static uintptr_t RunOf(const void* p) { return AlignedRun<kUnit>::BaseOf(p); }

  Source source;
};

TEST_F(HoardBorrow, BeforeMoreIsHeldThanEver) {
  HeapOf<Borrowing> heap(source);
  const auto of_0 = TakeAs(0, heap, kObjects + kObjects / 2);
  const size_t free = 2 * kObjects - of_0.size();
  const auto of_1 = TakeAs(1, heap, free);
  EXPECT_EQ(source.held(), 2 * kUnit);
  for (void* p : of_1) EXPECT_EQ(RunOf(p), RunOf(of_0.back()));
  ExpectSound(heap);
  // The lender's own blocks in it go home to the borrower, and nobody has anything to lend now.
  PlayedProcessor::who = 0;
  heap.deallocate(of_0.back());
  EXPECT_NE(RunOf(heap.allocate(kSize)), RunOf(of_0.back()));
  EXPECT_EQ(source.held(), 3 * kUnit);
  EXPECT_EQ(TakeAs(1, heap, 1)[0], of_0.back());
  ExpectSound(heap);
}

TEST_F(HoardBorrow, NotWhileLessIsHeldThanBefore) {
  HeapOf<Borrowing> heap(source);
  const auto of_0 = TakeAs(0, heap, 3 * kObjects);
  for (size_t i = kObjects / 2; i < 2 * kObjects; ++i) heap.deallocate(of_0[i]);
  ASSERT_EQ(source.held(), 2 * kUnit);
  EXPECT_NE(RunOf(TakeAs(1, heap, 1)[0]), RunOf(of_0[0]));
  EXPECT_EQ(source.held(), 3 * kUnit);
  EXPECT_EQ(RunOf(TakeAs(2, heap, 1)[0]), RunOf(of_0[0]));  // that is the most there was
  EXPECT_EQ(source.held(), 3 * kUnit);
  ExpectSound(heap);
}

TEST_F(HoardBorrow, NotWhileThereIsASpare) {
  HeapOf<Sparing> heap(source);
  const auto of_0 = TakeAs(0, heap, 2 * kObjects);
  for (size_t i = kObjects / 2; i < of_0.size(); ++i) heap.deallocate(of_0[i]);
  ASSERT_EQ(heap.spares(), 1u);
  EXPECT_EQ(RunOf(TakeAs(1, heap, 1)[0]), RunOf(of_0[kObjects]));
  EXPECT_EQ(heap.spares(), 0u);
  EXPECT_EQ(source.held(), 2 * kUnit);
  ExpectSound(heap);
}

TEST_F(HoardBorrow, AlsoFromWhoHasOnlyWhatOthersPartedWith) {
  HeapOf<Borrowing> heap(HoardOptions{.thresholds = {.empty_sixteenths = 1, .slack = 1}}, source);
  const auto of_0 = TakeAs(0, heap, 3 * kObjects);
  FreeOfEach(heap, of_0, kObjects - 1);
  TakeAs(1, heap, 1);
  TakeAs(2, heap, 1);
  TakeAs(0, heap, kObjects - 1);  // what it kept is full
  ASSERT_EQ(source.held(), 3 * kUnit);
  TakeAs(3, heap, 1);
  EXPECT_EQ(source.held(), 3 * kUnit);
  ExpectSound(heap);
}

TEST_F(HoardBorrow, OnlyFromSoManyOn) {
  HeapOf<FromThree> heap(source);
  for (const size_t who : {0u, 1u, 2u}) {
    TakeAs(who, heap, 1);
    EXPECT_EQ(source.held(), (who + 1) * kUnit);
  }
  TakeAs(3, heap, 1);
  EXPECT_EQ(source.held(), 3 * kUnit);
  ExpectSound(heap);
}

// Of superblocks that are a quarter empty, when the lender has half of one free.
TEST_F(HoardBorrow, OnlyWhatItsHeapHardlyUses) {
  const auto held_after = [this](size_t superblocks, size_t freed, HoardThresholds t) {
    HeapOf<Borrowing> heap(HoardOptions{.thresholds = t}, source);
    FreeOfEach(heap, TakeAs(0, heap, superblocks * kObjects), freed);
    TakeAs(1, heap, 1);
    ExpectSound(heap);
    return source.held() / kUnit - superblocks;
  };
  constexpr size_t kQuarter = (kObjects + 3) / 4;
  constexpr size_t kHalf = (kObjects + 1) / 2;
  EXPECT_EQ(held_after(1, kHalf, kHolding), 0u);
  EXPECT_EQ(held_after(1, kHalf - 1, kHolding), 1u);
  EXPECT_EQ(held_after(2, kQuarter, kHolding), 0u);
  EXPECT_EQ(held_after(4, kQuarter - 1, kHolding), 1u);
  // And f empty, or the lender could be too empty without it.
  HoardThresholds half = kHolding;
  half.empty_sixteenths = 8;
  EXPECT_EQ(held_after(4, kHalf, half), 0u);
  EXPECT_EQ(held_after(4, kHalf - 1, half), 1u);
}

TEST_F(HoardBorrow, TakesTheEmptiest) {
  HeapOf<Borrowing> heap(HoardOptions{.thresholds = kHolding}, source);
  const auto blocks = TakeAs(0, heap, 3 * kObjects);
  for (size_t i = 0; i < 3; ++i) {
    const size_t freed = i == 1 ? kObjects - 1 : kObjects / 2;
    for (size_t j = 0; j < freed; ++j) heap.deallocate(blocks[i * kObjects + j]);
  }
  EXPECT_EQ(RunOf(TakeAs(1, heap, 1)[0]), RunOf(blocks[kObjects]));
  ExpectSound(heap);
}

// The empty superblock that a heap keeps may go, and then another class may keep one.
TEST_F(HoardBorrow, AnEmptySuperblockThatIsKept) {
  HeapOf<Keeping> heap(source);
  heap.deallocate(heap.allocate(kSize));
  EXPECT_EQ(source.held(), kUnit);
  void* p = TakeAs(1, heap, 1)[0];
  EXPECT_EQ(source.held(), kUnit);
  ExpectSound(heap);
  PlayedProcessor::who = 0;
  heap.deallocate(heap.allocate(16));
  EXPECT_EQ(source.held(), 2 * kUnit);
  PlayedProcessor::who = 1;
  heap.deallocate(p);
  EXPECT_EQ(source.held(), 2 * kUnit);
  ExpectSound(heap);
}

TEST_F(HoardBorrow, GrowsWhenTheLenderIsBusy) {
  HeapOf<Borrowing> heap(source);
  TakeAs(0, heap, 1);
  const auto with_bin_of_0 = [&heap](auto f) {
    heap.visit_bins([&](auto& bin, size_t at, size_t c) {
      if (!bin.global && at == 0 && c == Borrowing::Classes::of(kSize)) f(bin);
    });
  };
  with_bin_of_0([](auto& bin) { bin.lock.lock(); });
  TakeAs(1, heap, 1);
  EXPECT_EQ(source.held(), 2 * kUnit);
  with_bin_of_0([](auto& bin) { bin.lock.unlock(); });
  TakeAs(2, heap, 1);
  EXPECT_EQ(source.held(), 2 * kUnit);
  ExpectSound(heap);
}

// A few of those that were used, from the next one on, until one lends.
TEST(HoardLenders, AsksAFew) {
  using Lenders = HoardLenders<8, SystemSync>;
  Lenders lenders;
  const auto asked = [&lenders](size_t home, size_t lender) {
    std::vector<size_t> all;
    static int lent;
    lenders.Ask(home, 8, [&](size_t at) {
      all.push_back(at);
      return at == lender ? &lent : nullptr;
    });
    return all;
  };
  EXPECT_EQ(asked(0, 9), std::vector<size_t>{});
  for (const size_t heap : {1u, 2u, 6u}) lenders.Note(heap);
  EXPECT_EQ(asked(2, 9), (std::vector<size_t>{6, 1}));
  EXPECT_EQ(asked(2, 6), (std::vector<size_t>{6}));
  for (const size_t heap : {0u, 3u, 4u}) lenders.Note(heap);
  static_assert(Lenders::kAsked == 4);
  EXPECT_EQ(asked(2, 9), (std::vector<size_t>{3, 4, 6, 0}));
}

}  // namespace
}  // namespace strata::layers
