// How many pages the program is likely to want back soon (Maas et al., ISMM 2021). Remembers the
// least and most pages in use of each epoch. A busy program's demand is the smaller of its peak and
// of (its largest swing within an epoch, lately) + (the level it never fell below, over longer); a
// program that stays idle is judged by its last few seconds. A pure class: time and use are handed
// in; the page heap's lock guards it.
//
// Why two kinds of windows: the published ones (60 s, 300 s, 10 min) hold a burst for minutes, and
// shorter ones for everybody would break the hugepages of a program that swings every few seconds.
// But one that swings calls the allocator, and one that has finished its burst does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace strata {

// What a working program keeps above its demand.
constexpr Pages HeadroomOf(Pages demand) { return std::max(PagesOf(HugePages(4)), demand / 32); }

// The greatest of the values reported over the last `ms`, in slots: what is older by more than a
// 62nd part of that is forgotten.
class RecentMax {
 public:
  static constexpr size_t kSlots = 64;
  struct Slot {
    uint64_t number, last_ms;
    size_t max;
  };

  // The slots lie elsewhere: nobody's memory until they are written to.
  RecentMax(uint32_t ms, Slot (&slots)[kSlots])
      : ms_(ms), slot_ms_(ms / (kSlots - 2) + 1), slots_(slots) {}

  void Add(uint64_t now_ms, size_t value) {
    const uint64_t number = now_ms / slot_ms_ + 1;
    Slot& s = slots_[number % kSlots];
    if (!IsUsed(number % kSlots) || s.number != number) s = {number, 0, 0};
    used_ |= uint64_t{1} << (number % kSlots);
    s.last_ms = now_ms;
    s.max = std::max(s.max, value);
  }
  size_t Max(uint64_t now_ms) const {
    size_t max = 0;
    for (size_t i = 0; i < kSlots; ++i) {
      if (IsUsed(i) && slots_[i].last_ms + ms_ > now_ms) max = std::max(max, slots_[i].max);
    }
    return max;
  }

 private:
  bool IsUsed(size_t slot) const { return (used_ >> slot & 1) != 0; }

  uint32_t ms_, slot_ms_;
  uint64_t used_ = 0;  // by bit, the slots that were written to
  static_assert(kSlots == 64);
  Slot (&slots_)[kSlots];
};

// How much was asked of the allocator since the last look. At kIdle a program may compute all the
// same: Program tells.
enum class CallRate : uint8_t { kBusy, kIdle };

class DemandTracker {
 public:
  struct Windows {
    uint32_t short_ms, long_ms, peak_ms, idle_ms;
  };

  explicit DemandTracker(const Windows& windows)
      : idle_ms_(windows.idle_ms),
        swing_(windows.short_ms, slots_[0]),
        level_(windows.long_ms, slots_[1]),
        peak_(windows.peak_ms, slots_[2]),
        idle_peak_(windows.idle_ms, slots_[3]) {}
  DemandTracker(const DemandTracker&) = delete;
  DemandTracker& operator=(const DemandTracker&) = delete;

  // At each change of use.
  void Record(size_t used) {
    last_ = used;
    if (used < min_) min_ = used;
    if (used > max_) max_ = used;
  }

  // Ends the current epoch if it has lasted long enough. With the rate of calls since the last one.
  void Advance(uint64_t now_ns, CallRate calls) {
    const uint64_t now_ms = now_ns / 1'000'000;
    if (!started_) {
      started_ = true;
      epoch_start_ms_ = now_ms;
    }
    if (calls == CallRate::kBusy) {
      idle_ = false;
    } else if (!idle_) {
      idle_ = true;
      idle_since_ms_ = now_ms;
    }
    now_ms_ = now_ms;
    if (now_ms - epoch_start_ms_ < kEpochMs) return;
    swing_.Add(now_ms, max_ - min_);
    level_.Add(now_ms, min_);
    peak_.Add(now_ms, max_);
    idle_peak_.Add(now_ms, max_);
    epoch_start_ms_ = now_ms;
    min_ = max_ = last_;
  }

  bool idle() const { return idle_ && now_ms_ - idle_since_ms_ >= idle_ms_ / 2; }

  size_t Demand() const {
    if (idle()) return std::max(max_, idle_peak_.Max(now_ms_));
    const size_t swing = std::max(max_ - min_, swing_.Max(now_ms_));
    const size_t level = std::max(min_, level_.Max(now_ms_));
    return std::min(std::max(max_, peak_.Max(now_ms_)), swing + level);
  }

 private:
  static constexpr uint64_t kEpochMs = 500;

  uint32_t idle_ms_;
  RecentMax swing_, level_, peak_, idle_peak_;  // of the epochs
  size_t last_ = 0, min_ = 0, max_ = 0;         // of the current epoch
  bool started_ = false;
  bool idle_ = false;
  uint64_t idle_since_ms_ = 0;
  uint64_t epoch_start_ms_ = 0;
  uint64_t now_ms_ = 0;
  RecentMax::Slot slots_[4][RecentMax::kSlots];
};

}  // namespace strata
