// What of a heap is modelled: 2 MiB hugepages of 256 blocks of 8 KiB. An object of a block or more
// takes whole blocks, and for each 2 MiB of it a hugepage of its own. Smaller ones share spans of
// two blocks, each for one size class and one class of lifetimes; the fullest span is tried first.
// M. Maas et al., CACM 67(4), 2024, section 3; docs/simulate.md says what is left out. Part of
// strata-simulate.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "lifetime/bin_packer.h"

namespace strata::simulate {

inline constexpr uint64_t kBlock = 8192;
inline constexpr uint32_t kBlocks = 256;
inline constexpr uint64_t kBinBytes = kBlock * kBlocks;
inline constexpr uint32_t kSpanBlocks = 2;

// The paper's allocator puts large objects into the nearest longer class and spans into the longest.
inline constexpr FillOrder kLargeOrder = FillOrder::kNearest;
inline constexpr FillOrder kSpanOrder = FillOrder::kLongest;

// Eight size classes for each doubling, none below 16 bytes.
struct SizeStep {
  uint32_t index;
  uint32_t bytes;

  static constexpr uint32_t kCount = 8 * 14;

  static constexpr SizeStep Of(uint64_t size) {
    const auto bytes = static_cast<uint32_t>(size < 16 ? 16 : size);
    const auto log = static_cast<uint32_t>(std::bit_width(bytes - 1));  // 2^(log-1) < bytes <= 2^log
    const uint32_t step = (uint32_t{1} << (log - 1)) / 8;
    const uint32_t rounded = (bytes + step - 1) / step * step;
    return {log * 8 + (rounded - (uint32_t{1} << (log - 1))) / step - 1, rounded};
  }
};

template <class Packer>
class Heap {
 public:
  // A span takes objects for as long as its class lasts, so that right predictions empty it before
  // the deadline of its hugepage.
  Heap(Packer& packer, const BinLadder& ladder, size_t items)
      : packer_(packer), ladder_(ladder), placed_(items), lists_(SizeStep::kCount * ladder.count) {}

  bool Place(uint64_t item, uint64_t now, uint64_t size, BinClass lifetime) {
    if (size < kBlock) return PlaceSmall(item, now, size, lifetime);
    own_bins_ += size / kBinBytes;
    const auto blocks = static_cast<uint32_t>((size % kBinBytes + kBlock - 1) / kBlock);
    if (blocks == 0) return true;
    placed_[item] = packer_.Place(now, blocks, lifetime, kLargeOrder);
    return placed_[item].placed();
  }

  void Remove(uint64_t item, uint64_t now, uint64_t size) {
    if (size < kBlock) return RemoveSmall(item, now);
    const uint64_t own = size / kBinBytes;
    own_bins_ -= own;
    own_reclaimed_ += own;
    if (placed_[item].placed()) packer_.Remove(now, placed_[item]);
  }

  uint64_t held() const { return packer_.in_use() + own_bins_; }
  uint64_t reclaimed() const { return packer_.stats().reclaimed + own_reclaimed_; }

 private:
  struct Span {
    PlacedItem place;
    uint32_t list;  // which of lists_
    uint32_t live;
    uint32_t capacity;
    uint64_t closes;
    BinLink link;
  };
  static constexpr size_t kFullness = 16;
  using Lists = BinLists<Span, &Span::link, kFullness>;

  bool PlaceSmall(uint64_t item, uint64_t now, uint64_t size, BinClass lifetime) {
    const SizeStep step = SizeStep::Of(size);
    const uint32_t list = lifetime * SizeStep::kCount + step.index;
    uint32_t index = FindOpen(list, now);
    if (index == kNoBin) {
      const PlacedItem place = packer_.Place(now, kSpanBlocks, lifetime, kSpanOrder);
      if (!place.placed()) return false;
      const auto capacity = static_cast<uint32_t>(kSpanBlocks * kBlock / step.bytes);
      index = Add({place, list, 0, capacity, AddTicks(now, ladder_.Bound(lifetime)), kNoLink});
    }
    ++spans_[index].live;
    List(index, now);
    placed_[item] = {index, 0, 0};
    return true;
  }

  void RemoveSmall(uint64_t item, uint64_t now) {
    const uint32_t index = placed_[item].bin;
    Span& span = spans_[index];
    if (--span.live != 0) return List(index, now);
    lists_[span.list].Remove(spans_.data(), index);
    packer_.Remove(now, span.place);
    free_.push_back(index);
  }

  uint32_t FindOpen(uint32_t list, uint64_t now) {
    for (;;) {
      const uint32_t index = lists_[list].FirstFrom(0);
      if (index == kNoBin || now < spans_[index].closes) return index;
      lists_[list].Remove(spans_.data(), index);
    }
  }

  uint32_t Add(const Span& span) {
    if (free_.empty()) {
      spans_.push_back(span);
      return static_cast<uint32_t>(spans_.size() - 1);
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    spans_[index] = span;
    return index;
  }

  // In the list of its fullness while it has room and takes objects.
  void List(uint32_t index, uint64_t now) {
    const Span& span = spans_[index];
    Lists& lists = lists_[span.list];
    if (span.live == span.capacity || now >= span.closes) {
      lists.Remove(spans_.data(), index);
    } else {
      lists.Move(spans_.data(), index, (span.capacity - span.live) * kFullness / (span.capacity + 1));
    }
  }

  static constexpr BinLink kNoLink{kNoBin, kNoBin, kNoBin};

  Packer& packer_;
  BinLadder ladder_;
  std::vector<PlacedItem> placed_;
  std::vector<Span> spans_;
  std::vector<uint32_t> free_;
  std::vector<Lists> lists_;
  uint64_t own_bins_ = 0;
  uint64_t own_reclaimed_ = 0;
};

}  // namespace strata::simulate
