// What a bin is made of, for bin_packer.h: how its slots are handed out at first, one after the
// other, and whether a slot that came free can be used again. Those handed out skip what gaps were
// filled with before them, so gaps are filled from their end. Three kinds: blocks of a hugepage,
// where an item is a contiguous run; cores of a machine, where any will do; pages of an erase
// block, which can be written once. All begin with Reset and may lie in raw memory, so that room
// for millions of bins costs nothing until it is used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"
#include "hugepage/page_bitmap.h"

namespace strata {

// An item is a run of neighbouring slots. A gap is filled from the shortest run that is long
// enough.
template <uint32_t kCount>
class RunSlots {
 public:
  static constexpr uint32_t kSlots = kCount;

  void Reset() {
    handed_out_ = 0;
    free_ = {};
    free_.SetRange(0, kSlots);
    longest_ = kSlots;
  }
  bool IsHandedOut() const { return free_.NextSet(handed_out_) >= kSlots; }
  bool CanBump(uint32_t n) const { return NextRun(n) < kSlots; }
  // Of an item that may go on in the next bin.
  uint32_t LeftAtEnd() const {
    const auto run = static_cast<uint32_t>(free_.RunBefore(kSlots));
    return run < kSlots - handed_out_ ? run : kSlots - handed_out_;
  }
  uint32_t Fit() const { return longest_; }

  uint32_t Bump(uint32_t n) {
    const uint32_t first = NextRun(n);
    STRATA_DCHECK(first < kSlots);
    handed_out_ = first + n;
    Take(first, n);
    return first;
  }
  uint32_t Fill(uint32_t n) {
    size_t best = 0, length = kBits + 1;
    free_.ForRuns([&](size_t at, size_t run) {
      if (run < n || run >= length) return;
      best = at + run - n;
      length = run;
    });
    STRATA_DCHECK(length <= kBits);
    Take(static_cast<uint32_t>(best), n);
    return static_cast<uint32_t>(best);
  }
  void Release(uint32_t first, uint32_t n) {
    STRATA_DCHECK(!free_.AnyIn(first, n));
    free_.SetRange(first, n);
    const auto run = static_cast<uint32_t>(free_.RunBefore(first) + free_.RunFrom(first));
    if (run > longest_) longest_ = run;
  }

 private:
  static constexpr size_t kBits = RoundUp(kSlots, 64);

  // The first that is long enough of what is not handed out; kSlots or more: none.
  uint32_t NextRun(uint32_t n) const {
    size_t at = free_.NextSet(handed_out_);
    while (at < kSlots && free_.RunFrom(at) < n) at = free_.NextSet(free_.NextClear(at));
    return static_cast<uint32_t>(at);
  }
  void Take(uint32_t first, uint32_t n) {
    STRATA_DCHECK(free_.AllIn(first, n));
    free_.ClearRange(first, n);
    longest_ = static_cast<uint32_t>(free_.LongestRun());
  }

  uint32_t handed_out_;
  uint32_t longest_;
  PageBitmap<kBits> free_;
};

// An item is any slots, wherever they lie.
template <uint32_t kCount>
class CountedSlots {
 public:
  static constexpr uint32_t kSlots = kCount;

  void Reset() { handed_out_ = used_ = 0; }
  bool IsHandedOut() const { return LeftAtEnd() == 0; }
  bool CanBump(uint32_t n) const { return n <= LeftAtEnd(); }
  uint32_t LeftAtEnd() const { return kSlots - (handed_out_ > used_ ? handed_out_ : used_); }
  uint32_t Fit() const { return kSlots - used_; }
  uint32_t Bump(uint32_t n) {
    handed_out_ += n;
    return Fill(n);
  }
  uint32_t Fill(uint32_t n) {
    STRATA_DCHECK(n <= Fit());
    used_ += n;
    return 0;
  }
  void Release(uint32_t /*first*/, uint32_t n) { used_ -= n; }

 private:
  uint32_t handed_out_;
  uint32_t used_;
};

// Slots that are written once, until the bin is reclaimed.
template <uint32_t kCount>
class AppendSlots {
 public:
  static constexpr uint32_t kSlots = kCount;

  void Reset() { handed_out_ = 0; }
  bool IsHandedOut() const { return LeftAtEnd() == 0; }
  bool CanBump(uint32_t n) const { return n <= LeftAtEnd(); }
  uint32_t LeftAtEnd() const { return kSlots - handed_out_; }
  uint32_t Fit() const { return 0; }
  uint32_t Bump(uint32_t n) {
    const uint32_t first = handed_out_;
    handed_out_ += n;
    return first;
  }
  uint32_t Fill(uint32_t /*n*/) {
    STRATA_CHECK(!"no gap of an append-only bin can be filled");
    return 0;
  }
  void Release(uint32_t /*first*/, uint32_t /*n*/) {}

 private:
  uint32_t handed_out_;
};

}  // namespace strata
