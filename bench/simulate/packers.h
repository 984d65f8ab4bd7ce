// The packers that BinPacker is compared with; they know nothing of lifetimes, and have its
// interface. First fit takes the bin with the lowest number that has room. Fullest first is
// Temeraire's order (A. H. Hunter et al., OSDI 2021, section 4.4): the shortest gap that is long
// enough, and of bins with equal ones that with the most items, for it is the least likely to
// become empty. Part of strata-simulate.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "lifetime/bin_packer.h"

namespace strata::simulate {

template <class Slots>
struct PlainBin {
  Slots slots;
  uint32_t live = 0;  // slots
  uint32_t items = 0;
  BinLink link{kNoBin, kNoBin, kNoBin};
};

// Finds the first bin with a gap of some length: a tournament over the longest gap of each.
class FirstGap {
 public:
  void Set(uint32_t bin, uint32_t fit) {
    if (bin >= leaves_) Grow(std::bit_ceil(bin + size_t{1}));
    size_t at = leaves_ + bin;
    tree_[at] = fit;
    while ((at /= 2) != 0) tree_[at] = std::max(tree_[2 * at], tree_[2 * at + 1]);
  }
  uint32_t Find(uint32_t length) const {
    if (leaves_ == 0 || tree_[1] < length) return kNoBin;
    size_t at = 1;
    while (at < leaves_) at = tree_[2 * at] >= length ? 2 * at : 2 * at + 1;
    return static_cast<uint32_t>(at - leaves_);
  }

 private:
  void Grow(size_t leaves) {
    std::vector<uint32_t> grown(2 * leaves);
    for (size_t i = 0; i < leaves_; ++i) grown[leaves + i] = tree_[leaves_ + i];
    for (size_t i = leaves - 1; i != 0; --i) grown[i] = std::max(grown[2 * i], grown[2 * i + 1]);
    tree_ = std::move(grown);
    leaves_ = leaves;
  }

  size_t leaves_ = 0;
  std::vector<uint32_t> tree_;
};

template <class Slots>
class FirstFit {
 public:
  PlacedItem Place(Ticks /*now*/, uint32_t length, BinClass /*lifetime*/, FillOrder /*order*/) {
    uint32_t index = gaps_.Find(length);
    if (index == kNoBin) {
      index = static_cast<uint32_t>(bins_.size());
      bins_.emplace_back();
      bins_[index].slots.Reset();
    }
    PlainBin<Slots>& bin = bins_[index];
    if (bin.live == 0) ++in_use_;
    bin.live += length;
    const PlacedItem item{index, bin.slots.Fill(length), length};
    gaps_.Set(index, bin.slots.Fit());
    return item;
  }
  void Remove(Ticks /*now*/, const PlacedItem& item) {
    PlainBin<Slots>& bin = bins_[item.bin];
    bin.slots.Release(item.first, item.length);
    bin.live -= item.length;
    gaps_.Set(item.bin, bin.slots.Fit());
    if (bin.live != 0) return;
    --in_use_;
    ++stats_.reclaimed;
  }
  void Advance(Ticks /*now*/) {}
  uint32_t in_use() const { return in_use_; }
  const BinPackerStats& stats() const { return stats_; }

 private:
  std::vector<PlainBin<Slots>> bins_;
  FirstGap gaps_;
  uint32_t in_use_ = 0;
  BinPackerStats stats_;
};

template <class Slots>
class FullestFirst {
 public:
  PlacedItem Place(Ticks /*now*/, uint32_t length, BinClass /*lifetime*/, FillOrder /*order*/) {
    uint32_t index = lists_.FirstFrom(size_t{length} * kChunks);
    if (index == kNoBin) index = TakeFree();
    PlainBin<Slots>& bin = bins_[index];
    bin.live += length;
    ++bin.items;
    const PlacedItem item{index, bin.slots.Fill(length), length};
    List(index);
    return item;
  }
  void Remove(Ticks /*now*/, const PlacedItem& item) {
    PlainBin<Slots>& bin = bins_[item.bin];
    bin.slots.Release(item.first, item.length);
    bin.live -= item.length;
    --bin.items;
    if (bin.live != 0) return List(item.bin);
    lists_.Remove(bins_.data(), item.bin);
    free_.insert(item.bin);
    ++stats_.reclaimed;
  }
  void Advance(Ticks /*now*/) {}
  uint32_t in_use() const { return static_cast<uint32_t>(bins_.size() - free_.size()); }
  const BinPackerStats& stats() const { return stats_; }

 private:
  static constexpr size_t kChunks = 8;

  // 0 is the fullest: more than 64 items; 7 has one.
  static size_t ChunkOf(uint32_t items) {
    const auto log = static_cast<size_t>(std::bit_width(items - 1));
    return log >= kChunks ? 0 : kChunks - 1 - log;
  }
  void List(uint32_t index) {
    const PlainBin<Slots>& bin = bins_[index];
    lists_.Move(bins_.data(), index, bin.slots.Fit() * kChunks + ChunkOf(bin.items));
  }
  uint32_t TakeFree() {
    if (free_.empty()) {
      bins_.emplace_back();
      bins_.back().slots.Reset();
      return static_cast<uint32_t>(bins_.size() - 1);
    }
    return free_.extract(free_.begin()).value();
  }

  std::vector<PlainBin<Slots>> bins_;
  std::set<uint32_t> free_;
  BinLists<PlainBin<Slots>, &PlainBin<Slots>::link, (Slots::kSlots + 1) * kChunks> lists_;
  BinPackerStats stats_;
};

}  // namespace strata::simulate
