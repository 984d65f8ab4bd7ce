// Whether the kernel's free hugepage frames are cold: a hypervisor took the memory behind them back
// (free page reporting, ballooning), and whoever touches one first waits for it, 3 to 10 ms where a
// warm one takes 0.2. Where they are cold the filler's fresh hugepages begin as single pages, of
// which the kernel has warm ones far longer, and are rebuilt when three quarters of one are in use;
// and a rebuild, during which the program's page faults wait, gets a frame that was touched ahead.
//
// Told by first touches alone, the program's own among them (a rebuild also waits for all CPUs),
// and by their CPU time, in which the hypervisor's work counts and waiting for a CPU does not. The
// kernel hands out first what was freed last, so a fast touch may have met the one warm frame of
// many cold ones, while a slow one cost milliseconds: one slow touch is enough, and several fast
// ones in a row end it. A pure class, in hugepage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata {

class ColdFrames {
 public:
  bool likely(uint32_t now_s) const { return cold_ && now_s < cold_until_s_; }

  // Warm by touches that are not old: a host takes back what was free for some seconds.
  bool surely_warm(uint32_t now_s) const { return !cold_ && mean_ns_ < kWarmNs && IsFresh(now_s); }

  // What the first touches of n hugepages took of CPU time, each on average.
  void NoteTouches(uint64_t ns, size_t n, uint32_t now_s) {
    if (!likely(now_s) && (cold_ || !IsFresh(now_s))) {
      cold_ = false;
      mean_ns_ = kWarmNs;
    }
    const int64_t taken = static_cast<int64_t>(std::min(ns, kMostNs));
    mean_ns_ += (taken - mean_ns_) * static_cast<int64_t>(std::min(n, kWeight)) / int64_t{kWeight};
    if (mean_ns_ > kColdNs) cold_ = true;
    if (mean_ns_ < kWarmNs) cold_ = false;
    last_s_ = now_s;
    if (taken > kColdNs) cold_until_s_ = now_s + kKnownS;
  }

  // What a touch takes, by the last ones; 0 before the first.
  uint64_t mean_ns() const { return last_s_ == 0 ? 0 : static_cast<uint64_t>(mean_ns_); }

 private:
  // As much as the page faults that a hugepage saves.
  static constexpr int64_t kColdNs = 1'200'000;
  static constexpr int64_t kWarmNs = 400'000;
  static constexpr uint64_t kMostNs = 8'000'000;  // counted of one: a dozen fast ones make it good
  static constexpr size_t kWeight = 4;            // touches that count
  static constexpr uint32_t kFreshS = 5;
  static constexpr uint32_t kKnownS = 60;  // after the last slow one

  bool IsFresh(uint32_t now_s) const { return now_s < last_s_ + kFreshS; }

  int64_t mean_ns_ = kWarmNs;
  uint32_t last_s_ = 0;
  uint32_t cold_until_s_ = 0;
  bool cold_ = false;
};

}  // namespace strata
