// What of a heap is bins: hugepages of 2 MiB, 256 blocks of 8 KiB each. And objects that take whole
// blocks. Where bins have lifetimes they fill the open one and run on over its end into the next,
// as M. Maas et al. have it (CACM 67(4), 2024, section 3.2); else an object takes for each 2 MiB of
// it a hugepage of its own, and the rest goes where there is room (A. H. Hunter et al., OSDI 2021,
// section 4.2). Part of strata-simulate; heap.h has the smaller objects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lifetime/bin_packer.h"

namespace strata::simulate {

inline constexpr uint64_t kBlock = 8192;
inline constexpr uint32_t kBlocks = 256;
inline constexpr uint64_t kBinBytes = kBlock * kBlocks;

template <class Packer>
concept HasLifetimes = requires(Packer& packer) { packer.OpenRoom(BinClass{}, 1); };

template <class Packer>
class BlockObjects {
 public:
  explicit BlockObjects(Packer& packer) : packer_(packer) {}

  bool Place(uint64_t item, uint64_t now, uint64_t size, BinClass lifetime) {
    const uint64_t blocks = size / kBlock + (size % kBlock != 0);
    std::vector<PlacedItem>& pieces = pieces_[item];
    if constexpr (HasLifetimes<Packer>) return PlaceInPieces(pieces, now, blocks, lifetime);
    own_bins_ += blocks / kBlocks;
    const auto rest = static_cast<uint32_t>(blocks % kBlocks);
    if (rest != 0) pieces.push_back(packer_.Place(now, rest, lifetime, FillOrder::kNearest));
    return true;
  }

  void Remove(uint64_t item, uint64_t now, uint64_t size) {
    for (const PlacedItem& piece : pieces_[item]) packer_.Remove(now, piece);
    pieces_.erase(item);
    if constexpr (HasLifetimes<Packer>) return;
    const uint64_t own = (size / kBlock + (size % kBlock != 0)) / kBlocks;
    own_bins_ -= own;
    own_reclaimed_ += own;
  }

  uint64_t own_bins() const { return own_bins_; }
  uint64_t own_reclaimed() const { return own_reclaimed_; }

 private:
  bool PlaceInPieces(std::vector<PlacedItem>& pieces, uint64_t now, uint64_t blocks,
                     BinClass lifetime) {
    if (blocks <= kBlocks) {
      const auto all = static_cast<uint32_t>(blocks);
      const PlacedItem gap = packer_.PlaceInGap(now, all, lifetime, FillOrder::kNearest);
      if (gap.placed()) {
        pieces.push_back(gap);
        return true;
      }
    }
    while (blocks != 0) {
      const uint32_t n = packer_.OpenRoom(lifetime, blocks);
      pieces.push_back(packer_.Place(now, n, lifetime, FillOrder::kNever));
      if (!pieces.back().placed()) return false;
      blocks -= n;
    }
    return true;
  }

  Packer& packer_;
  std::unordered_map<uint64_t, std::vector<PlacedItem>> pieces_;
  uint64_t own_bins_ = 0;
  uint64_t own_reclaimed_ = 0;
};

}  // namespace strata::simulate
