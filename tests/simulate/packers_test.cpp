// The packers that BinPacker is compared with, against a look at every bin: which one each takes.
#include "packers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace strata::simulate::test {
namespace {

constexpr uint32_t kSlots = 64;

struct ModelBin {
  uint64_t used = 0;  // a bit a slot
  uint32_t items = 0;

  // The shortest run of free slots that is long enough; 0: none.
  uint32_t Gap(uint32_t n) const {
    uint32_t best = 0, run = 0;
    for (uint32_t i = 0; i <= kSlots; ++i) {
      if (i < kSlots && (used >> i & 1) == 0) {
        ++run;
        continue;
      }
      if (run >= n && (best == 0 || run < best)) best = run;
      run = 0;
    }
    return best;
  }
  uint32_t Longest() const {
    uint32_t longest = 0;
    for (uint32_t n = 1; Gap(n) != 0; n = longest + 1) longest = LongestFrom(n);
    return longest;
  }

 private:
  uint32_t LongestFrom(uint32_t n) const {
    while (Gap(n + 1) != 0) ++n;
    return n;
  }
};

uint64_t Bits(const PlacedItem& item) {
  return (item.length == 64 ? ~uint64_t{0} : (uint64_t{1} << item.length) - 1) << item.first;
}

// Packs and removes at random; `check` sees where each item would go before it is there.
template <class Packer, class Check>
void Exercise(Check check) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random(seed);
    Packer packer;
    std::vector<ModelBin> bins;
    std::vector<PlacedItem> items;
    for (int step = 0; step < 4'000; ++step) {
      if (random() % 10 < (step / 500 % 2 == 0 ? 6u : 4u) || items.empty()) {
        const auto n = static_cast<uint32_t>(1 + random() % (random() % 4 == 0 ? kSlots : 8));
        const PlacedItem item = packer.Place(0, n, 0, FillOrder::kNearest);
        ASSERT_LE(item.bin, bins.size());
        if (item.bin == bins.size()) bins.emplace_back();
        ASSERT_NO_FATAL_FAILURE(check(bins, item, n));
        ASSERT_EQ(bins[item.bin].used & Bits(item), 0u);
        bins[item.bin].used |= Bits(item);
        ++bins[item.bin].items;
        items.push_back(item);
      } else {
        const size_t which = random() % items.size();
        const PlacedItem item = items[which];
        items[which] = items.back();
        items.pop_back();
        packer.Remove(0, item);
        bins[item.bin].used &= ~Bits(item);
        --bins[item.bin].items;
      }
      const auto in_use = std::ranges::count_if(bins, [](const auto& b) { return b.items != 0; });
      ASSERT_EQ(packer.in_use(), static_cast<uint32_t>(in_use));
    }
    for (const PlacedItem& item : items) packer.Remove(0, item);
    EXPECT_EQ(packer.in_use(), 0u);
  }
}

TEST(PackersTest, FirstFitTakesTheLowestBinWithRoom) {
  Exercise<FirstFit<RunSlots<kSlots>>>(
      [](const std::vector<ModelBin>& bins, const PlacedItem& item, uint32_t n) {
        for (uint32_t i = 0; i < item.bin; ++i) ASSERT_EQ(bins[i].Gap(n), 0u);
        ASSERT_NE(bins[item.bin].Gap(n), 0u);
      });
}

// More than 64 items, up to 64, up to 32 ...: the fuller, the less.
size_t Chunk(uint32_t items) {
  size_t chunk = 7;
  for (uint32_t most = 1; most < items && chunk > 0; most *= 2) --chunk;
  return chunk;
}

TEST(PackersTest, FullestFirstTakesTheBinWhoseLongestGapIsShortestAndThenTheOneWithMostItems) {
  Exercise<FullestFirst<RunSlots<kSlots>>>(
      [](const std::vector<ModelBin>& bins, const PlacedItem& item, uint32_t n) {
        const ModelBin& taken = bins[item.bin];
        for (const ModelBin& bin : bins) {
          if (bin.items == 0 || bin.Gap(n) == 0) continue;
          ASSERT_NE(taken.items, 0u) << "an empty bin, though another has room";
          ASSERT_LE(taken.Longest(), bin.Longest());
          if (taken.Longest() == bin.Longest()) {
            ASSERT_LE(Chunk(taken.items), Chunk(bin.items));
          }
        }
      });
}

}  // namespace
}  // namespace strata::simulate::test
