// The simulated heap: what it holds of objects with right and wrong lifetimes, on each packer.
#include "heap.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "packers.h"

namespace strata::simulate::test {
namespace {

constexpr BinPolicy kPolicy{{.base = 10, .ratio = 10, .count = 4}, 2};
constexpr uint32_t kCapacity = 4096;
using Slots = RunSlots<kBlocks>;

// A heap of lifetimes and what is beneath it.
struct Lifetimes {
  explicit Lifetimes(size_t items)
      : bins(kCapacity),
        packer(std::make_unique<BinPacker<Slots>>(kPolicy, bins.data(), kCapacity)),
        heap(*packer, kPolicy.ladder, items) {}

  std::vector<PackedBin<Slots>> bins;
  std::unique_ptr<BinPacker<Slots>> packer;
  Heap<BinPacker<Slots>> heap;
};

struct Plain {
  explicit Plain(size_t items) : heap(packer, kPolicy.ladder, items) {}

  FirstFit<Slots> packer;
  Heap<FirstFit<Slots>> heap;
};

template <class Made>
class HeapTest : public testing::Test {};
using Heaps = testing::Types<Lifetimes, Plain>;
TYPED_TEST_SUITE(HeapTest, Heaps);

TYPED_TEST(HeapTest, HoldsAtLeastWhatIsLiveAndNothingInTheEnd) {
  constexpr size_t kItems = 20'000;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    TypeParam made(kItems);
    std::vector<uint64_t> sizes, live;
    uint64_t bytes = 0, now = 0;
    const auto remove = [&](size_t which) {
      made.heap.Remove(live[which], now, sizes[live[which]]);
      bytes -= sizes[live[which]];
      live[which] = live.back();
      live.pop_back();
    };
    for (uint64_t item = 0; item < kItems; ++item) {
      now += random() % 3;
      uint64_t size = random() % 500;
      if (random() % 10 == 0) size = random() % (300 << 10);
      if (random() % 500 == 0) size = random() % (9 << 20);
      sizes.push_back(size);
      ASSERT_TRUE(made.heap.Place(item, now, size, static_cast<BinClass>(random() % 4)));
      live.push_back(item);
      bytes += size;
      while (live.size() > 3'000 || (!live.empty() && random() % 3 == 0)) {
        remove(random() % live.size());
      }
      ASSERT_GE(made.heap.held() * kBinBytes, bytes);
    }
    while (!live.empty()) remove(live.size() - 1);
    EXPECT_EQ(made.heap.held(), 0u);
    EXPECT_GT(made.heap.reclaimed(), 0u);
  }
}

// Pairs of objects of one size, one that goes soon and one that stays; then the first are removed.
template <class Made>
uint64_t HeldAfterBurst(BinClass of_short, BinClass of_long) {
  constexpr uint64_t kPairs = 40'000, kSize = 1024;
  Made made(2 * kPairs);
  for (uint64_t i = 0; i < kPairs; ++i) {
    made.heap.Place(2 * i, 0, kSize, i % 20 == 0 ? of_long : of_short);
  }
  for (uint64_t i = 0; i < kPairs; ++i) {
    if (i % 20 != 0) made.heap.Remove(2 * i, 5, kSize);
  }
  return made.heap.held();
}

TEST(LifetimeHeapTest, WhatIsPredictedToStayLiesApart) {
  EXPECT_LE(HeldAfterBurst<Lifetimes>(0, 3), 2u);   // 2 MiB stay
  EXPECT_EQ(HeldAfterBurst<Lifetimes>(0, 0), 20u);  // each hugepage has some
  EXPECT_EQ(HeldAfterBurst<Plain>(0, 3), 20u);
}

TEST(LifetimeHeapTest, ALargeObjectRunsOverTheEndOfAHugepage) {
  Lifetimes made(8);
  for (uint64_t item = 0; item < 8; ++item) {
    ASSERT_TRUE(made.heap.Place(item, 0, kBinBytes * 3 / 2, 3));
  }
  EXPECT_EQ(made.heap.held(), 12u);
  Plain plain(8);
  for (uint64_t item = 0; item < 8; ++item) plain.heap.Place(item, 0, kBinBytes * 3 / 2, 3);
  EXPECT_EQ(plain.heap.held(), 8u + 4);
  Lifetimes odd(3);
  for (uint64_t item = 0; item < 3; ++item) odd.heap.Place(item, 0, kBinBytes * 4 / 6, 3);
  EXPECT_EQ(odd.heap.held(), 3u);  // 171 blocks each: a block more than 2 hugepages
}

TEST(LifetimeHeapTest, GapsOfASlabAreForShorterObjectsUntilItsHugepageIsPromoted) {
  constexpr uint64_t kSize = 4096, kMany = 512;  // a hugepage
  Lifetimes made(2 * kMany + 2);
  for (uint64_t i = 0; i < kMany; ++i) made.heap.Place(i, 0, kSize, 1);
  ASSERT_EQ(made.heap.held(), 1u);
  for (uint64_t i = 0; i < kMany; i += 2) made.heap.Remove(i, 1, kSize);
  made.packer->Advance(150);
  ASSERT_TRUE(made.heap.Place(kMany, 150, kSize, 1));  // the slabs' class is over
  EXPECT_EQ(made.heap.held(), 2u);
  ASSERT_TRUE(made.heap.Place(kMany + 1, 150, kSize, 0));
  EXPECT_EQ(made.heap.held(), 2u);
  made.packer->Advance(250);
  EXPECT_EQ(made.packer->stats().promoted, 1u);
  for (uint64_t i = 0; i < 100; ++i) made.heap.Place(kMany + 2 + i, 250, kSize, 1);
  EXPECT_EQ(made.heap.held(), 2u);
}

TEST(LifetimeHeapTest, WithoutABinNothingIsPlaced) {
  Lifetimes made(2);
  EXPECT_FALSE(made.heap.Place(0, 0, (kCapacity + 1) * kBinBytes, 3));
}

}  // namespace
}  // namespace strata::simulate::test
