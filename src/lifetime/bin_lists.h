// Doubly linked lists of bins that lie in one array, linked by their indices: for each number up to
// kIndices a list, and a bitmap that says which have any, so that the first list from a number on
// is found without looking at bins. It is how the hugepage filler finds the hugepage with the
// shortest sufficient run (Hunter et al., OSDI 2021, section 4.4). Below bin_packer.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"
#include "hugepage/page_bitmap.h"

namespace strata {

inline constexpr uint32_t kNoBin = ~uint32_t{0};

// The place of a bin in one family of lists.
struct BinLink {
  uint32_t next;
  uint32_t previous;
  uint32_t index;  // which list; kNoBin: none
};

// kLink says which member of Bin is the link of these lists.
template <class Bin, BinLink Bin::* kLink, size_t kIndices>
class BinLists {
 public:
  BinLists() {
    for (uint32_t& head : heads_) head = kNoBin;
  }

  uint32_t Head(size_t index) const { return heads_[index]; }

  // A bin of the first list that is not empty, from `index` on.
  uint32_t FirstFrom(size_t index) const {
    const size_t found = present_.NextSet(index);
    return found < kIndices ? heads_[found] : kNoBin;
  }

  void Insert(Bin* bins, uint32_t bin, size_t index) {
    const uint32_t next = heads_[index];
    (bins[bin].*kLink) = {next, kNoBin, static_cast<uint32_t>(index)};
    if (next != kNoBin) (bins[next].*kLink).previous = bin;
    heads_[index] = bin;
    present_.SetRange(index, 1);
  }

  // Nothing if it is in none.
  void Remove(Bin* bins, uint32_t bin) {
    BinLink& link = bins[bin].*kLink;
    if (link.index == kNoBin) return;
    if (link.previous != kNoBin) {
      (bins[link.previous].*kLink).next = link.next;
    } else {
      heads_[link.index] = link.next;
      if (link.next == kNoBin) present_.ClearRange(link.index, 1);
    }
    if (link.next != kNoBin) (bins[link.next].*kLink).previous = link.previous;
    link.index = kNoBin;
  }

  void Move(Bin* bins, uint32_t bin, size_t index) {
    if ((bins[bin].*kLink).index == index) return;
    Remove(bins, bin);
    Insert(bins, bin, index);
  }

 private:
  uint32_t heads_[kIndices];
  PageBitmap<RoundUp(kIndices, 64)> present_;
};

// One queue, the oldest first.
template <class Bin, BinLink Bin::* kLink>
class BinQueue {
 public:
  uint32_t Oldest() const { return head_; }

  void Push(Bin* bins, uint32_t bin) {
    (bins[bin].*kLink) = {kNoBin, tail_, 0};
    (tail_ != kNoBin ? (bins[tail_].*kLink).next : head_) = bin;
    tail_ = bin;
  }
  void Remove(Bin* bins, uint32_t bin) {
    BinLink& link = bins[bin].*kLink;
    if (link.index == kNoBin) return;
    (link.previous != kNoBin ? (bins[link.previous].*kLink).next : head_) = link.next;
    (link.next != kNoBin ? (bins[link.next].*kLink).previous : tail_) = link.previous;
    link.index = kNoBin;
  }

 private:
  uint32_t head_ = kNoBin;
  uint32_t tail_ = kNoBin;
};

}  // namespace strata
