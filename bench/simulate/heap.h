// A heap on a packer: objects up to 256 KiB lie in slabs, of Strata's size classes and as long as
// its spans (span/size_classes.h), larger ones in blocks (blocks.h). Caches are not there.
//
// A slab is of one size class and one class of lifetimes, and is itself packed as a bin is: it is
// open until it was full once, or until its class of lifetimes is over; after that its gaps are for
// objects of shorter classes. As with bins, an open one is for those as well while they would not
// fill a slab. Where its hugepage is promoted it belongs to the longer class, which
// is what M. Maas et al. call recycling (CACM 67(4), 2024, section 3.5; they have lines in place of
// slots). In the longest class, or if there is one class alone, gaps are for all: what malloc does.
// Part of strata-simulate.
#pragma once

#include <cstdint>
#include <vector>

#include "blocks.h"
#include "lifetime/bin_packer.h"
#include "span/size_classes.h"

namespace strata::simulate {

template <class Packer>
class Heap {
 public:
  Heap(Packer& packer, const BinLadder& ladder, size_t items)
      : packer_(packer),
        ladder_(HasLifetimes<Packer> ? ladder : BinLadder{.count = 1}),
        large_(packer),
        slab_of_(items, kNoBin),
        class_of_(items),
        live_(size_t{ladder_.count} * kSizes),
        lists_(size_t{2} * ladder_.count * kSizes) {}

  bool Place(uint64_t item, uint64_t now, uint64_t size, BinClass lifetime) {
    if (lifetime > ladder_.Longest()) lifetime = ladder_.Longest();
    if (size > kMaxClassSize) return large_.Place(item, now, size, lifetime);
    NoticePromotions();
    const SizeClass c = ClassOfSize(size);
    uint32_t index = FindGap(c, lifetime);
    if (index == kNoBin) index = FindOpen(c, lifetime, now);
    if (index == kNoBin) index = NewSlab(c, lifetime, now);
    if (index == kNoBin) return false;
    ++slabs_[index].live;
    ++live_[lifetime * kSizes + Raw(c)];
    class_of_[item] = lifetime;
    slab_of_[item] = index;
    List(index);
    return true;
  }

  void Remove(uint64_t item, uint64_t now, uint64_t size) {
    if (size > kMaxClassSize) return large_.Remove(item, now, size);
    const uint32_t index = slab_of_[item];
    Slab& slab = slabs_[index];
    --live_[class_of_[item] * kSizes + Raw(slab.size)];
    if (--slab.live != 0) return List(index);
    ListOf(slab).Remove(slabs_.data(), index);
    packer_.Remove(now, slab.place);
    free_.push_back(index);
  }

  uint64_t held() const { return packer_.in_use() + large_.own_bins(); }
  uint64_t reclaimed() const { return packer_.stats().reclaimed + large_.own_reclaimed(); }

 private:
  struct Slab {
    PlacedItem place;
    Ticks closes;
    uint32_t live;
    SizeClass size;
    BinClass lifetime;
    bool is_open;
    BinLink link;
  };
  static constexpr size_t kSizes = kNumSizes + 1;
  static constexpr size_t kFullness = 16;
  using Lists = BinLists<Slab, &Slab::link, kFullness>;

  // By fullness, the fullest first, those with room.
  Lists& ListOf(bool is_open, BinClass lifetime, SizeClass c) {
    return lists_[((is_open ? ladder_.count : 0u) + lifetime) * kSizes + Raw(c)];
  }
  Lists& ListOf(const Slab& slab) { return ListOf(slab.is_open, slab.lifetime, slab.size); }

  uint32_t FindGap(SizeClass c, BinClass lifetime) {
    const BinClass least = lifetime == ladder_.Longest() ? lifetime : BinClass(lifetime + 1);
    const uint32_t closed = FindFrom(false, c, least);
    if (closed != kNoBin || lifetime == ladder_.Longest()) return closed;
    const bool few = live_[lifetime * kSizes + Raw(c)] < InfoOf(c).objects;
    return few ? FindFrom(true, c, least) : kNoBin;
  }

  // The longest first: those stay anyway.
  uint32_t FindFrom(bool is_open, SizeClass c, BinClass least) {
    for (BinClass longer = ladder_.count; longer-- > least;) {
      const uint32_t index = ListOf(is_open, longer, c).FirstFrom(0);
      if (index != kNoBin && LifetimeOf(slabs_[index]) >= least) return index;
    }
    return kNoBin;
  }

  uint32_t FindOpen(SizeClass c, BinClass lifetime, uint64_t now) {
    Lists& lists = ListOf(true, lifetime, c);
    for (;;) {
      const uint32_t index = lists.FirstFrom(0);
      if (index == kNoBin || now < slabs_[index].closes) return index;
      Belong(index, false, lifetime);
    }
  }

  uint32_t NewSlab(SizeClass c, BinClass lifetime, uint64_t now) {
    const PlacedItem place = packer_.Place(now, InfoOf(c).pages, lifetime, FillOrder::kLongest);
    if (!place.placed()) return kNoBin;
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slabs_.size()));
      slabs_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    const Ticks closes = AddTicks(now, ladder_.Bound(lifetime));
    slabs_[index] = {place, closes, 0, c, lifetime, true, {kNoBin, kNoBin, kNoBin}};
    return index;
  }

  void List(uint32_t index) {
    Slab& slab = slabs_[index];
    const uint32_t most = InfoOf(slab.size).objects;
    if (slab.live == most) {
      ListOf(slab).Remove(slabs_.data(), index);
    } else {
      const uint32_t room = most - slab.live;
      ListOf(slab).Move(slabs_.data(), index, room * kFullness / (most + 1));
    }
  }

  void Belong(uint32_t index, bool is_open, BinClass lifetime) {
    Slab& slab = slabs_[index];
    ListOf(slab).Remove(slabs_.data(), index);
    slab.is_open = is_open;
    slab.lifetime = lifetime;
    List(index);
  }

  // Of its hugepage, which may have been demoted.
  BinClass LifetimeOf(const Slab& slab) const {
    if constexpr (HasLifetimes<Packer>) return packer_.bin(slab.place.bin).lifetime;
    return 0;
  }

  void NoticePromotions() {
    if (packer_.stats().promoted == promoted_) return;
    promoted_ = packer_.stats().promoted;
    for (uint32_t index = 0; index < slabs_.size(); ++index) {
      const Slab& slab = slabs_[index];
      if (slab.live != 0 && LifetimeOf(slab) > slab.lifetime && WasPromoted(slab))
        Belong(index, false, LifetimeOf(slab));
    }
  }
  // A slab that fills a gap is on a longer hugepage from the start.
  bool WasPromoted(const Slab& slab) const {
    if constexpr (HasLifetimes<Packer>) return packer_.IsResidual(slab.place);
    return false;
  }

  Packer& packer_;
  BinLadder ladder_;
  BlockObjects<Packer> large_;
  std::vector<uint32_t> slab_of_;   // by item
  std::vector<BinClass> class_of_;  // by item
  std::vector<uint32_t> live_;      // of each class of lifetimes and size, wherever they lie
  std::vector<Slab> slabs_;
  std::vector<uint32_t> free_;
  std::vector<Lists> lists_;
  uint64_t promoted_ = 0;  // how many hugepages were when slabs were last looked at
};

}  // namespace strata::simulate
