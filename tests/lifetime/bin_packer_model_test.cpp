// A bin packer against a model that looks at every bin and item: random items, predictions that are
// often wrong, a clock that leaps and jumps back, too few bins. The model takes over where an item
// was placed, after it has checked that it may lie there, and derives everything else by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "lifetime/bin_packer.h"

namespace strata::test {
namespace {

constexpr BinPolicy kPolicy{{.base = 10, .ratio = 4, .count = 5}, 2};
constexpr uint32_t kCapacity = 40;
constexpr BinClass kLongest = 4;

struct ModelItem {
  PlacedItem placed;
  BinClass predicted;
  bool residual;
};

struct ModelBin {
  BinState state = BinState::kFree;
  BinClass lifetime = 0;
  Ticks deadline = 0;
  uint32_t handed_out = 0;
  std::vector<bool> used;  // of a bin in which items are runs
  std::vector<ModelItem> items;

  uint32_t Live() const {
    uint32_t n = 0;
    for (const ModelItem& item : items) n += item.placed.length;
    return n;
  }
  uint32_t Residual() const {
    uint32_t n = 0;
    for (const ModelItem& item : items) n += item.residual ? item.placed.length : 0;
    return n;
  }
};

enum class Kind { kRuns, kCounted, kAppend };
template <class Slots>
constexpr Kind kKind = Kind::kRuns;
template <uint32_t n>
constexpr Kind kKind<CountedSlots<n>> = Kind::kCounted;
template <uint32_t n>
constexpr Kind kKind<AppendSlots<n>> = Kind::kAppend;

template <class Slots>
class Model {
 public:
  static constexpr uint32_t kSlots = Slots::kSlots;

  Model() : storage_(kCapacity), bins_(kCapacity) {
    packer_ = std::make_unique<BinPacker<Slots>>(kPolicy, storage_.data(), kCapacity);
  }

  void Advance(int64_t step) {
    clock_ = step < 0 && clock_ < static_cast<Ticks>(-step) ? 0 : clock_ + static_cast<Ticks>(step);
    if (step > 0) elapsed_ += static_cast<Ticks>(step);
  }

  void Tick() {
    packer_->Advance(clock_);
    Expire();
  }

  void Place(uint32_t n, BinClass c, FillOrder order) {
    Expire();
    const PlacedItem item = packer_->Place(clock_, n, c, order);
    int wanted = order == FillOrder::kNever ? -1 : BestGapClass(n, c, order, BinState::kActive);
    const bool few = LiveOf(c) + n <= kSlots;
    const bool in_open = wanted < 0 && order != FillOrder::kNever && few && c != kLongest;
    if (in_open) wanted = BestGapClass(n, c, order, BinState::kOpen);
    if (!item.placed()) {
      EXPECT_EQ(wanted, -1);
      EXPECT_TRUE(std::none_of(bins_.begin(), bins_.end(),
                               [](const ModelBin& bin) { return bin.state == BinState::kFree; }));
      const int open = OpenBin(c);
      EXPECT_TRUE(open < 0 || NextRun(bins_[static_cast<size_t>(open)], n) == kSlots);
      return;
    }
    ModelBin& bin = bins_[item.bin];
    EXPECT_EQ(item.length, n);
    EXPECT_EQ(item.filled_gap, wanted > c);
    if (wanted >= 0) {
      EXPECT_EQ(bin.state, in_open ? BinState::kOpen : BinState::kActive);
      EXPECT_EQ(bin.lifetime, wanted);
      EXPECT_GE(Fit(bin), n);
    } else {
      PutInOpen(item, n, c);
    }
    Occupy(bin, item, true);
    bin.items.push_back({item, c, !item.filled_gap});
    if (bin.state == BinState::kOpen && NextRun(bin, 1) == kSlots) Close(bin);
  }

  void RemoveAny(uint64_t which) {
    Expire();
    size_t n = 0;
    for (const ModelBin& bin : bins_) n += bin.items.size();
    if (n == 0) return Tick();  // each step is seen, or a jump back and forth would not be
    which %= n;
    for (ModelBin& bin : bins_) {
      if (which < bin.items.size()) return Remove(bin, which);
      which -= bin.items.size();
    }
  }

  void Check() const {
    uint32_t in_use = 0;
    for (uint32_t i = 0; i < kCapacity; ++i) {
      const ModelBin& bin = bins_[i];
      if (bin.state == BinState::kFree) {
        EXPECT_TRUE(i >= packer_->touched() || packer_->bin(i).state == BinState::kFree);
        continue;
      }
      ++in_use;
      const PackedBin<Slots>& real = packer_->bin(i);
      ASSERT_LT(i, packer_->touched());
      ASSERT_EQ(real.state, bin.state);
      ASSERT_EQ(real.lifetime, bin.lifetime);
      ASSERT_EQ(real.live, bin.Live());
      ASSERT_EQ(real.residual, bin.Residual());
      ASSERT_EQ(real.deadline, bin.state == BinState::kOpen ? kNoTick : bin.deadline);
      if (bin.state == BinState::kOpen) {
        for (uint32_t n = 1; n <= kSlots; n *= 2)
          ASSERT_EQ(real.slots.CanBump(n), NextRun(bin, n) < kSlots) << n;
        ASSERT_EQ(real.slots.LeftAtEnd(), LeftAtEnd(bin));
      }
      if (bin.state == BinState::kActive) {
        ASSERT_EQ(real.slots.Fit(), Fit(bin));
      }
      for (const ModelItem& item : bin.items) {
        ASSERT_LE(item.predicted, bin.lifetime);
        if (bin.state == BinState::kOpen) {
          ASSERT_EQ(item.residual, item.predicted == bin.lifetime);
        }
        ASSERT_EQ(packer_->IsResidual(item.placed), item.residual);
      }
    }
    ASSERT_EQ(packer_->in_use(), in_use);
    ASSERT_EQ(packer_->stats().opened - packer_->stats().reclaimed, in_use);
    ASSERT_EQ(packer_->stats().promoted, promoted_);
    ASSERT_EQ(packer_->stats().demoted, demoted_);
  }

  const BinPackerStats& stats() const { return packer_->stats(); }

 private:
  static Ticks Bound(BinClass c) {
    Ticks bound = 10;
    while (c-- > 0) bound *= 4;
    return bound;
  }

  int OpenBin(BinClass c) const {
    for (size_t i = 0; i < bins_.size(); ++i)
      if (bins_[i].state == BinState::kOpen && bins_[i].lifetime == c) return static_cast<int>(i);
    return -1;
  }

  static uint32_t Fit(const ModelBin& bin) {
    if (kKind<Slots> == Kind::kAppend) return 0;
    if (kKind<Slots> == Kind::kCounted) return kSlots - bin.Live();
    uint32_t longest = 0, run = 0;
    for (const bool used : bin.used) {
      run = used ? 0 : run + 1;
      longest = std::max(longest, run);
    }
    return longest;
  }

  // Where the next items of the bin's class go; kSlots: nowhere.
  static uint32_t NextRun(const ModelBin& bin, uint32_t n) {
    if (kKind<Slots> != Kind::kRuns) return n <= LeftAtEnd(bin) ? bin.handed_out : kSlots;
    for (uint32_t at = bin.handed_out; at + n <= kSlots; ++at) {
      const auto begin = bin.used.begin() + at;
      if (std::find(begin, begin + n, true) == begin + n) return at;
    }
    return kSlots;
  }
  static uint32_t LeftAtEnd(const ModelBin& bin) {
    if (kKind<Slots> == Kind::kAppend) return kSlots - bin.handed_out;
    if (kKind<Slots> == Kind::kCounted) return kSlots - std::max(bin.handed_out, bin.Live());
    uint32_t at = kSlots;
    while (at > bin.handed_out && !bin.used[at - 1]) --at;
    return kSlots - at;
  }

  uint32_t LiveOf(BinClass c) const {
    uint32_t n = 0;
    for (const ModelBin& bin : bins_)
      for (const ModelItem& item : bin.items) n += item.predicted == c ? item.placed.length : 0;
    return n;
  }

  int BestGapClass(uint32_t n, BinClass c, FillOrder order, BinState state) const {
    int best = -1;
    for (const ModelBin& bin : bins_) {
      if (bin.state != state || Fit(bin) < n) continue;
      if (bin.lifetime < c || (bin.lifetime == c && !TakesOwn(bin))) continue;
      const int k = bin.lifetime;
      const bool better = order == FillOrder::kNearest ? k < best : k > best;
      if (best < 0 || better) best = k;
    }
    return best;
  }

  // Whether what is predicted right and comes now is gone before the deadline.
  bool TakesOwn(const ModelBin& bin) const {
    if (bin.state != BinState::kActive) return false;
    return bin.lifetime == kLongest || elapsed_ + Bound(bin.lifetime) <= bin.deadline;
  }

  void PutInOpen(const PlacedItem& item, uint32_t n, BinClass c) {
    ModelBin& bin = bins_[item.bin];
    const int open = OpenBin(c);
    if (open >= 0 && NextRun(bins_[static_cast<size_t>(open)], n) < kSlots) {
      EXPECT_EQ(item.bin, static_cast<uint32_t>(open));
    } else {
      if (open >= 0) Close(bins_[static_cast<size_t>(open)]);
      EXPECT_EQ(bin.state, BinState::kFree);
      bin = {BinState::kOpen, c, 0, 0, std::vector<bool>(kSlots), {}};
    }
    const uint32_t first = NextRun(bin, n);
    if (kKind<Slots> != Kind::kCounted) {
      EXPECT_EQ(item.first, first);
    }
    bin.handed_out = first + n;
  }

  static void Occupy(ModelBin& bin, const PlacedItem& item, bool used) {
    if (kKind<Slots> != Kind::kRuns) return;
    for (uint32_t i = item.first; i < item.first + item.length; ++i) {
      EXPECT_NE(bin.used[i], used);
      bin.used[i] = used;
    }
  }

  void SetClass(ModelBin& bin, BinClass c) {
    bin.lifetime = c;
    bin.deadline = c == kLongest ? kNoTick : elapsed_ + 2 * Bound(c);
  }
  void Close(ModelBin& bin) {
    bin.state = BinState::kActive;
    SetClass(bin, bin.lifetime);
    if (bin.Residual() == 0) Demote(bin);
  }
  void Demote(ModelBin& bin) {
    ++demoted_;
    for (ModelItem& left : bin.items) left.residual = true;
    SetClass(bin, static_cast<BinClass>(std::max<int>(bin.lifetime, 1) - 1));
  }
  void Expire() {
    for (ModelBin& bin : bins_) {
      if (bin.state != BinState::kActive || bin.deadline > elapsed_) continue;
      ++promoted_;
      SetClass(bin, static_cast<BinClass>(bin.lifetime + 1));
    }
  }

  void Remove(ModelBin& bin, size_t which) {
    const ModelItem item = bin.items[which];
    bin.items.erase(bin.items.begin() + static_cast<ptrdiff_t>(which));
    Occupy(bin, item.placed, false);
    EXPECT_EQ(packer_->Remove(clock_, item.placed), bin.items.empty());
    if (bin.items.empty()) {
      bin = {};
    } else if (bin.state == BinState::kActive && bin.Residual() == 0) {
      Demote(bin);
    }
  }

  std::vector<PackedBin<Slots>> storage_;
  std::unique_ptr<BinPacker<Slots>> packer_;
  std::vector<ModelBin> bins_;
  Ticks clock_ = 0, elapsed_ = 0;
  uint64_t promoted_ = 0, demoted_ = 0;
};

template <class Slots>
class BinPackerModelTest : public testing::Test {};

using Kinds =
    testing::Types<RunSlots<16>, RunSlots<100>, RunSlots<256>, CountedSlots<12>, AppendSlots<16>>;
TYPED_TEST_SUITE(BinPackerModelTest, Kinds);

TYPED_TEST(BinPackerModelTest, AgreesWithTheModelAfterEachStep) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    Model<TypeParam> model;
    for (int step = 0; step < 3'000; ++step) {
      if (below(50) == 0) {
        model.Advance(-static_cast<int64_t>(below(500)));
      } else {
        model.Advance(static_cast<int64_t>(below(100) == 0 ? below(3'000) : below(5)));
      }
      const bool grows = step / 300 % 2 == 0;
      if (below(20) == 0) {
        model.Tick();
      } else if (below(10) < (grows ? 6u : 4u)) {
        const auto most = below(4) == 0 ? TypeParam::kSlots : TypeParam::kSlots / 4;
        model.Place(static_cast<uint32_t>(1 + below(most)), static_cast<BinClass>(below(5)),
                    static_cast<FillOrder>(below(3)));
      } else {
        model.RemoveAny(random());
      }
      ASSERT_NO_FATAL_FAILURE(model.Check()) << "seed " << seed << " step " << step;
      ASSERT_FALSE(this->HasFailure()) << "seed " << seed << " step " << step;
    }
    EXPECT_GT(model.stats().promoted, 0u);
    if (kKind<TypeParam> != Kind::kAppend) {
      EXPECT_GT(model.stats().demoted, 0u);
      EXPECT_GT(model.stats().filled, 0u);
    }
  }
}

}  // namespace
}  // namespace strata::test
