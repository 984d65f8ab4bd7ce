// How often hugepages are rebuilt (after TCMalloc's HugePageFiller): each tick at best, and rarer
// by halves while the kernel takes long over it. A pure class.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strata {

class CollapsePacer {
 public:
  // True when this tick may collapse.
  bool Due() {
    if (wait_ > 0) {
      --wait_;
      return false;
    }
    wait_ = interval_ - 1;
    return true;
  }

  // After a pass: what a hugepage took on average.
  void Report(uint64_t mean_ns) {
    if (mean_ns > kSlowNs) interval_ = std::min(interval_ * 2, kLongest);
    if (mean_ns < kFastNs) interval_ = std::max(interval_ / 2, 1u);
    wait_ = interval_ - 1;
  }

  uint32_t interval() const { return interval_; }

 private:
  static constexpr uint64_t kSlowNs = 30'000'000, kFastNs = 15'000'000;
  static constexpr uint32_t kLongest = 128;  // ticks

  uint32_t interval_ = 1;
  uint32_t wait_ = 0;
};

}  // namespace strata
