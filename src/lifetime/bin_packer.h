// Packs items of predicted lifetimes into bins that can be reclaimed only when they are empty, so
// that what is in a bin ends together: the algorithm of M. Maas et al., "Combining machine learning
// and lifetime-based resource management for memory allocation and beyond", CACM 67(4), 2024,
// sections 3.2 to 3.4, for bins of any kind (bin_slots.h) and any clock. Storage and time are
// handed in; nothing is allocated, and nothing locked: the caller has it to himself. Top of the
// four bin_*.h, which nothing else in lifetime needs.
//
// A bin is open, active or free. Each class has at most one open bin, whose slots are handed out
// one after the other to items of that class; these are its residual items. When all are handed
// out, or the next item does not fit, it becomes active, with a deadline of K times the bound of
// its class. Gaps of active bins are filled with items of shorter classes, which should be gone
// before the residual ones. Two things are not the paper's. While items of the bin's own class
// should be gone before its deadline they fill its gaps, too, as residual ones: a K of 2 leaves
// them the time of one bound, and lifetimes in one class differ so much that else most of a bin is
// soon a gap for what there is little of. The longest class has no deadline. And while the items of
// a class would not fill a bin they go into open bins of longer classes, too, from the end: else
// each class keeps a bin that is nearly empty, which in a heap of a dozen bins is much of what is
// wasted. Then
//   - an empty bin is free at once;
//   - if the residual items are gone and others are not, the class was too long for what is left:
//     the bin is demoted by one class, and what is left is residual now;
//   - if the deadline passes, an item was predicted too short: the bin is promoted by one class.
// No item in a bin is predicted longer than the bin's class, whatever was demoted.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "lifetime/bin_ladder.h"
#include "lifetime/bin_lists.h"
#include "lifetime/bin_slots.h"

namespace strata {

// Which gaps an item is tried in first: of bins as little longer as may be, so that long gaps of
// the longest bins are kept whole, or of the longest bins, which stay anyway. The paper has the
// first for large objects and the second for spans of small ones.
enum class FillOrder : uint8_t { kNearest, kLongest, kNever };

enum class BinState : uint8_t { kFree, kOpen, kActive };

struct BinPolicy {
  BinLadder ladder;
  uint32_t deadline_factor = 2;  // the paper's K, 2 to 4
};

struct BinPackerStats {
  uint64_t opened = 0;
  uint64_t reclaimed = 0;
  uint64_t demoted = 0;
  uint64_t promoted = 0;
  uint64_t filled = 0;  // items put into gaps
};

// Whoever placed an item keeps this and hands it back to remove it.
struct PlacedItem {
  uint32_t bin = kNoBin;
  uint32_t first = 0;
  uint32_t length = 0;
  BinClass lifetime = 0;
  // It is residual unless it filled a gap of a longer class and the bin was not demoted since.
  uint32_t filled_gap : 1 = 0;
  uint32_t demotions : 31 = 0;

  bool placed() const { return bin != kNoBin; }
};

// What the caller hands in need not be initialized: each is set up when it is opened.
template <class Slots>
struct PackedBin {
  Slots slots;
  Ticks deadline;
  uint32_t live;      // slots
  uint32_t residual;  // slots
  uint32_t demotions;
  BinState state;
  BinClass lifetime;
  bool takes_own;  // items of its class into gaps
  BinLink gap;     // among the active bins of its class, by the longest item that fits
  BinLink due;     // among the active bins of its class, by deadline
};

template <class Slots>
class BinPacker {
 public:
  using Bin = PackedBin<Slots>;
  static constexpr uint32_t kSlots = Slots::kSlots;

  BinPacker(const BinPolicy& policy, Bin* bins, uint32_t capacity)
      : policy_(policy), bins_(bins), capacity_(capacity) {
    STRATA_CHECK(policy.ladder.Valid() && policy.deadline_factor >= 1);
    for (uint32_t& bin : open_) bin = kNoBin;
    for (uint32_t& bin : taking_) bin = kNoBin;
  }
  BinPacker(const BinPacker&) = delete;
  BinPacker& operator=(const BinPacker&) = delete;

  // Not placed, and nothing changed but the time, if a bin is needed and none is free.
  PlacedItem Place(Ticks now, uint32_t length, BinClass lifetime, FillOrder order) {
    STRATA_CHECK(length >= 1 && length <= kSlots);
    Advance(now);
    if (lifetime > Longest()) lifetime = Longest();
    const uint32_t gap = order == FillOrder::kNever ? kNoBin : FindGap(length, lifetime, order);
    return gap != kNoBin ? FillGap(gap, length, lifetime) : PlaceInOpen(length, lifetime);
  }

  // Not placed if there is no gap. With OpenRoom, for who can divide an item: what Place puts into
  // open bins in pieces leaves no rest in them.
  PlacedItem PlaceInGap(Ticks now, uint32_t length, BinClass lifetime, FillOrder order) {
    STRATA_CHECK(length >= 1 && length <= kSlots && order != FillOrder::kNever);
    Advance(now);
    if (lifetime > Longest()) lifetime = Longest();
    const uint32_t gap = FindGap(length, lifetime, order);
    return gap != kNoBin ? FillGap(gap, length, lifetime) : PlacedItem{};
  }
  // How much of an item the class's open bin still takes: all, or what reaches to its end; or, if
  // that is nothing, the bin that will be opened for it.
  uint32_t OpenRoom(BinClass lifetime, uint64_t length) const {
    const uint32_t open = open_[lifetime > Longest() ? Longest() : lifetime];
    const uint32_t all = length < kSlots ? static_cast<uint32_t>(length) : kSlots;
    if (open == kNoBin || bins_[open].slots.CanBump(all)) return all;
    const uint32_t left = bins_[open].slots.LeftAtEnd();
    return left != 0 ? left : all;
  }

  // Says whether the bin was reclaimed.
  bool Remove(Ticks now, const PlacedItem& item) {
    Advance(now);
    Bin& bin = bins_[item.bin];
    STRATA_CHECK(item.bin < fresh_ && bin.state != BinState::kFree && bin.live >= item.length);
    bin.slots.Release(item.first, item.length);
    bin.live -= item.length;
    live_[item.lifetime] -= item.length;
    if (IsResidual(item)) bin.residual -= item.length;
    if (bin.live == 0) {
      Reclaim(item.bin);
      return true;
    }
    if (bin.state == BinState::kActive) {
      if (bin.residual == 0) {
        Demote(item.bin);
      } else {
        ListGap(item.bin);
      }
    }
    return false;
  }

  // Promotes the bins whose deadline has passed, and closes others to items of their class. Place
  // and Remove do it too; to call it now and then is for times when nothing else happens. A clock
  // that goes back stands still until it goes on.
  void Advance(Ticks now) {
    if (now > seen_) now_ = AddTicks(now_, now - seen_);
    seen_ = now;
    if (now_ < next_deadline_) return;
    next_deadline_ = kNoTick;
    for (BinClass c = 0; c < Longest(); ++c) {
      uint32_t bin = due_[c].Oldest();
      for (; bin != kNoBin && bins_[bin].deadline <= now_; bin = due_[c].Oldest()) Promote(bin);
      if (bin != kNoBin) Expect(bins_[bin].deadline);
      for (bin = taking_[c]; bin != kNoBin && TakesOwnUntil(bin) < now_; bin = taking_[c]) {
        gaps_of_own_[c].Remove(bins_, bin);
        bins_[bin].takes_own = false;
        ListGap(bin);
        taking_[c] = bins_[bin].due.next;
      }
      if (bin != kNoBin) Expect(AddTicks(TakesOwnUntil(bin), 1));
    }
  }

  bool IsResidual(const PlacedItem& item) const {
    return !item.filled_gap || item.demotions != (bins_[item.bin].demotions & kDemotionMask);
  }
  const Bin& bin(uint32_t index) const { return bins_[index]; }
  uint32_t touched() const { return fresh_; }  // bins from 0 to here were in use at some time
  uint32_t in_use() const { return in_use_; }
  uint32_t unused() const { return capacity_ - in_use_; }
  const BinPackerStats& stats() const { return stats_; }
  const BinPolicy& policy() const { return policy_; }

 private:
  static constexpr uint32_t kDemotionMask = ~uint32_t{0} >> 1;
  using Gaps = BinLists<Bin, &Bin::gap, kSlots + 1>;

  Gaps& GapsOf(const Bin& bin) {
    return bin.takes_own ? gaps_of_own_[bin.lifetime] : gaps_[bin.lifetime];
  }

  BinClass Longest() const { return policy_.ladder.Longest(); }

  uint32_t FindGap(uint32_t length, BinClass lifetime, FillOrder order) const {
    uint32_t open = kNoBin;
    for (BinClass step = 0; lifetime + step <= Longest(); ++step) {
      const int c = order == FillOrder::kNearest ? lifetime + step : Longest() - step;
      uint32_t bin = c > lifetime ? gaps_[c].FirstFrom(length) : kNoBin;
      if (bin == kNoBin) bin = gaps_of_own_[c].FirstFrom(length);
      if (bin != kNoBin) return bin;
      const bool fits = c > lifetime && open_[c] != kNoBin && bins_[open_[c]].slots.Fit() >= length;
      if (open == kNoBin && fits) open = open_[c];
    }
    // More than that, and a burst of short items would leave what stays on each of its bins.
    return live_[lifetime] + length <= kSlots ? open : kNoBin;
  }

  PlacedItem FillGap(uint32_t index, uint32_t length, BinClass lifetime) {
    Bin& bin = bins_[index];
    const bool is_shorter = lifetime < bin.lifetime;
    const uint32_t demotions = bin.demotions;  // as they were: a bin without residual items closes
    const uint32_t first = bin.slots.Fill(length);
    bin.live += length;
    live_[lifetime] += length;
    if (!is_shorter) bin.residual += length;
    if (bin.state == BinState::kActive) {
      ListGap(index);
    } else if (bin.slots.IsHandedOut()) {
      Close(index);
    }
    ++stats_.filled;
    return {index, first, length, lifetime, is_shorter, demotions & kDemotionMask};
  }

  PlacedItem PlaceInOpen(uint32_t length, BinClass lifetime) {
    uint32_t index = open_[lifetime];
    if (index == kNoBin || !bins_[index].slots.CanBump(length)) {
      const uint32_t fresh = TakeFree();
      if (fresh == kNoBin) return {};
      if (index != kNoBin) Close(index);
      index = fresh;
      Open(index, lifetime);
    }
    Bin& bin = bins_[index];
    const uint32_t first = bin.slots.Bump(length);
    bin.live += length;
    bin.residual += length;
    live_[lifetime] += length;
    const PlacedItem item{index, first, length, lifetime, 0, bin.demotions & kDemotionMask};
    if (bin.slots.IsHandedOut()) Close(index);
    return item;
  }

  uint32_t TakeFree() {
    const uint32_t bin = free_;
    if (bin != kNoBin) {
      free_ = bins_[bin].gap.next;
      return bin;
    }
    return fresh_ < capacity_ ? fresh_++ : kNoBin;
  }

  void Open(uint32_t index, BinClass lifetime) {
    Bin& bin = bins_[index];
    bin.slots.Reset();
    bin.deadline = kNoTick;
    bin.live = bin.residual = bin.demotions = 0;
    bin.state = BinState::kOpen;
    bin.lifetime = lifetime;
    bin.takes_own = false;
    bin.gap.index = bin.due.index = kNoBin;
    open_[lifetime] = index;
    ++in_use_;
    ++stats_.opened;
  }

  void Close(uint32_t index) {
    Bin& bin = bins_[index];
    open_[bin.lifetime] = kNoBin;
    bin.state = BinState::kActive;
    SetClass(index, bin.lifetime);
    if (bin.residual == 0) Demote(index);  // all that is left are shorter items
  }

  void Reclaim(uint32_t index) {
    Bin& bin = bins_[index];
    if (bin.state == BinState::kOpen) {
      open_[bin.lifetime] = kNoBin;
    } else {
      Unlist(index);
    }
    bin.state = BinState::kFree;
    bin.gap.next = free_;
    free_ = index;
    --in_use_;
    ++stats_.reclaimed;
  }

  void Demote(uint32_t index) {
    Bin& bin = bins_[index];
    Unlist(index);
    ++bin.demotions;
    bin.residual = bin.live;
    SetClass(index, static_cast<BinClass>(bin.lifetime > 0 ? bin.lifetime - 1 : 0));
    ++stats_.demoted;
  }

  void Promote(uint32_t index) {
    Unlist(index);
    SetClass(index, static_cast<BinClass>(bins_[index].lifetime + 1));
    ++stats_.promoted;
  }

  // Of an active bin in no list. The longest class has no deadline: nothing could follow.
  void SetClass(uint32_t index, BinClass lifetime) {
    Bin& bin = bins_[index];
    bin.lifetime = lifetime;
    const Ticks bound = policy_.ladder.Bound(lifetime);
    bin.deadline = AddTicks(now_, TimesTicks(bound, policy_.deadline_factor));
    bin.takes_own = true;
    if (lifetime != Longest()) {
      due_[lifetime].Push(bins_, index);
      if (taking_[lifetime] == kNoBin) taking_[lifetime] = index;
      Expect(AddTicks(TakesOwnUntil(taking_[lifetime]), 1));
      Expect(bin.deadline);
    }
    ListGap(index);
  }

  void Unlist(uint32_t index) {
    const Bin& bin = bins_[index];
    if (taking_[bin.lifetime] == index) taking_[bin.lifetime] = bin.due.next;
    GapsOf(bin).Remove(bins_, index);
    due_[bin.lifetime].Remove(bins_, index);
  }

  void ListGap(uint32_t index) {
    GapsOf(bins_[index]).Move(bins_, index, bins_[index].slots.Fit());
  }

  // An item of the bin's class that comes later may outlive the deadline.
  Ticks TakesOwnUntil(uint32_t index) const {
    const Bin& bin = bins_[index];
    return bin.deadline == kNoTick ? kNoTick : bin.deadline - policy_.ladder.Bound(bin.lifetime);
  }

  void Expect(Ticks deadline) {
    if (deadline < next_deadline_) next_deadline_ = deadline;
  }

  BinPolicy policy_;
  Bin* bins_;
  uint32_t capacity_;
  uint32_t fresh_ = 0;
  uint32_t free_ = kNoBin;
  uint32_t in_use_ = 0;
  Ticks now_ = 0;   // the sum of all steps forward
  Ticks seen_ = 0;  // what the caller's clock said last
  Ticks next_deadline_ = kNoTick;
  uint32_t open_[kMostBinClasses];
  uint64_t live_[kMostBinClasses] = {};  // slots of what was predicted so, wherever it lies
  // A bin without a gap is in list 0, where nothing is looked for.
  Gaps gaps_[kMostBinClasses];
  Gaps gaps_of_own_[kMostBinClasses];  // of bins that take items of their class
  // The oldest bin of each class that does; all that are younger do, and follow it in its queue.
  uint32_t taking_[kMostBinClasses];
  // Deadlines of one class never get earlier, so each queue is in their order.
  BinQueue<Bin, &Bin::due> due_[kMostBinClasses];
  BinPackerStats stats_;
};

}  // namespace strata
