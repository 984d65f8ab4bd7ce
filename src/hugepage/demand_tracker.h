// How many pages the program is likely to want back soon (papers §3). Remembers the least and most
// pages in use of each epoch. A busy program's demand is the smaller of its peak and of (its
// largest swing within an epoch, lately) + (the level it never fell below, over longer); a program
// that stays idle is judged by its last few seconds. A pure class: time and use are handed in; the
// page heap's lock guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata {

class DemandTracker {
 public:
  struct Windows {
    uint32_t short_ms, long_ms, peak_ms, idle_ms;
  };

  explicit DemandTracker(const Windows& windows) : windows_(windows) {}

  // At each change of use.
  void Record(size_t used) {
    last_ = used;
    if (used < min_) min_ = used;
    if (used > max_) max_ = used;
  }

  // Ends the current epoch if it has lasted long enough. idle: the program asked for nothing since
  // the last call.
  void Advance(uint64_t now_ns, bool idle) {
    const uint64_t now_ms = now_ns / 1'000'000;
    if (!started_) {
      started_ = true;
      epoch_start_ms_ = now_ms;
    }
    if (!idle) {
      idle_ = false;
    } else if (!idle_) {
      idle_ = true;
      idle_since_ms_ = now_ms;
    }
    now_ms_ = now_ms;
    if (now_ms - epoch_start_ms_ < kEpochMs) return;
    epochs_[next_ % kSlots] = {now_ms, static_cast<uint32_t>(min_), static_cast<uint32_t>(max_)};
    ++next_;
    epoch_start_ms_ = now_ms;
    min_ = max_ = last_;
  }

  bool idle() const { return idle_ && now_ms_ - idle_since_ms_ >= windows_.idle_ms / 2; }

  size_t Demand() const {
    if (idle()) return PeakOver(windows_.idle_ms);
    size_t swing = max_ - std::min(min_, max_), level = min_;
    ForRecent(windows_.short_ms,
              [&](const Epoch& e) { swing = std::max<size_t>(swing, e.max - e.min); });
    ForRecent(windows_.long_ms, [&](const Epoch& e) { level = std::max<size_t>(level, e.min); });
    return std::min(PeakOver(windows_.peak_ms), swing + level);
  }

 private:
  static constexpr uint64_t kEpochMs = 500;
  static constexpr size_t kSlots = 1280;  // ten minutes and some

  struct Epoch {
    uint64_t end_ms;
    uint32_t min, max;
  };

  size_t PeakOver(uint64_t ms) const {
    size_t peak = max_;
    ForRecent(ms, [&](const Epoch& e) { peak = std::max<size_t>(peak, e.max); });
    return peak;
  }

  // Epochs that reach into the last `ms`.
  template <class F>
  void ForRecent(uint64_t ms, F f) const {
    for (size_t i = 1; i <= next_ && i <= kSlots; ++i) {
      const Epoch& e = epochs_[(next_ - i) % kSlots];
      if (e.end_ms + ms <= now_ms_) return;
      f(e);
    }
  }

  Windows windows_;
  size_t last_ = 0, min_ = 0, max_ = 0;  // of the current epoch
  bool started_ = false;
  bool idle_ = false;
  uint64_t idle_since_ms_ = 0;
  uint64_t epoch_start_ms_ = 0;
  uint64_t now_ms_ = 0;
  size_t next_ = 0;
  Epoch epochs_[kSlots];  // [next_ - kSlots, next_) are set; left alone before that, to cost no
                          // memory
};

}  // namespace strata
