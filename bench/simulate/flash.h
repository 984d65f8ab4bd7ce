// Files on flash: an erase block is written page by page, once, and erased as a whole. When few are
// left, the block with the fewest live pages is emptied by writing these elsewhere, which is the
// greedy cleaner of M. Rosenblum and J. Ousterhout, ACM TOCS 10(1), 1992, section 3.5. They go to
// the class that their block has by then: what survived its deadline lies among what lasts. Part of
// strata-simulate.
#pragma once

#include <cstdint>
#include <vector>

#include "lifetime/bin_packer.h"

namespace strata::simulate {

inline constexpr uint32_t kPages = 256;

class Flash {
 public:
  using Packer = BinPacker<AppendSlots<kPages>>;

  Flash(Packer& packer, const BinLadder& ladder, size_t items)
      : packer_(packer), files_(items), written_on_(packer.unused()), spare_(ladder.count + 1u) {}

  bool Place(uint64_t item, uint64_t now, uint64_t size, BinClass lifetime) {
    files_[item].resize(size);
    for (uint64_t page = 0; page < size; ++page) {
      while (packer_.unused() < spare_)
        if (!Clean(now)) return false;
      if (!Write({item, page}, now, lifetime)) return false;
      ++written_;
    }
    return true;
  }
  void Remove(uint64_t item, uint64_t now, uint64_t /*size*/) {
    for (PlacedItem& page : files_[item]) Drop(page, now);
    files_[item] = {};
  }

  uint64_t held() const { return packer_.in_use(); }
  uint64_t reclaimed() const { return packer_.stats().reclaimed; }
  uint64_t written() const { return written_; }
  uint64_t moved() const { return moved_; }

 private:
  struct Page {
    uint64_t item, page;
  };

  bool Write(const Page& page, uint64_t now, BinClass lifetime) {
    const PlacedItem placed = packer_.Place(now, 1, lifetime, FillOrder::kNever);
    if (!placed.placed()) return false;
    files_[page.item][page.page] = placed;
    std::vector<Page>& on = written_on_[placed.bin];
    if (placed.first == 0) on.clear();
    on.push_back(page);
    return true;
  }

  void Drop(const PlacedItem& page, uint64_t now) { packer_.Remove(now, page); }

  // False: all blocks that could be emptied are full of live pages.
  bool Clean(uint64_t now) {
    uint32_t victim = kNoBin;
    for (uint32_t i = 0; i < packer_.touched(); ++i) {
      if (packer_.bin(i).state != BinState::kActive) continue;
      if (victim == kNoBin || packer_.bin(i).live < packer_.bin(victim).live) victim = i;
    }
    if (victim == kNoBin || packer_.bin(victim).live == kPages) return false;
    const BinClass lifetime = packer_.bin(victim).lifetime;
    const std::vector<Page> pages = written_on_[victim];
    for (const Page& page : pages) {
      if (page.page >= files_[page.item].size()) continue;  // deleted
      const PlacedItem old = files_[page.item][page.page];
      if (old.bin != victim) continue;
      if (!Write(page, now, lifetime)) return false;
      Drop(old, now);
      ++moved_;
    }
    return true;
  }

  Packer& packer_;
  std::vector<std::vector<PlacedItem>> files_;
  std::vector<std::vector<Page>> written_on_;  // by block: its pages, also those that are gone
  uint32_t spare_;  // blocks: one for each class that may need one, and one more
  uint64_t written_ = 0;
  uint64_t moved_ = 0;
};

}  // namespace strata::simulate
