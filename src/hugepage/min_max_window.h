// The least and greatest value of something over the last seconds, in 16 slots. A pure class: time
// is handed in. The HugeCache uses it to tell how far its demand swings (Hunter et al., OSDI 2021).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata {

class MinMaxWindow {
 public:
  explicit constexpr MinMaxWindow(uint64_t window_ns) : slot_ns_(window_ns / kSlots) {}

  void Report(uint64_t now_ns, size_t value) {
    AdvanceTo(now_ns);
    Slot& s = slots_[current_ % kSlots];
    s.min = std::min(s.min, value);
    s.max = std::max(s.max, value);
    last_ = value;
  }

  size_t Max(uint64_t now_ns, uint64_t over_ns) {
    size_t max = 0;
    ForRecent(now_ns, over_ns, [&](const Slot& s) { max = std::max(max, s.max); });
    return max;
  }
  size_t Min(uint64_t now_ns, uint64_t over_ns) {
    size_t min = last_;
    ForRecent(now_ns, over_ns, [&](const Slot& s) { min = std::min(min, s.min); });
    return min;
  }

 private:
  static constexpr size_t kSlots = 16;
  struct Slot {
    size_t min = 0, max = 0;
  };

  // A slot in which nothing was reported holds the value that stood then.
  void AdvanceTo(uint64_t now_ns) {
    const uint64_t target = now_ns / slot_ns_;
    if (target <= current_) return;
    const uint64_t from = std::max(current_ + 1, target >= kSlots ? target - kSlots + 1 : 0);
    for (uint64_t i = from; i <= target; ++i) slots_[i % kSlots] = {last_, last_};
    current_ = target;
  }

  template <class F>
  void ForRecent(uint64_t now_ns, uint64_t over_ns, F f) {
    AdvanceTo(now_ns);
    const uint64_t n = std::min<uint64_t>(std::max<uint64_t>(over_ns / slot_ns_, 1), kSlots);
    for (uint64_t i = 0; i < n && i <= current_; ++i) f(slots_[(current_ - i) % kSlots]);
  }

  uint64_t slot_ns_;
  uint64_t current_ = 0;
  size_t last_ = 0;
  Slot slots_[kSlots];
};

}  // namespace strata
