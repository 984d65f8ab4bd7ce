// A histogram of times: 32 steps a doubling, so within 3 %. One a thread; then summed.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace crest {

class Latency {
 public:
  void Add(uint64_t ns) { ++counts_[IndexOf(ns)]; }
  void Add(const Latency& other) {
    for (size_t i = 0; i < kSteps; ++i) counts_[i] += other.counts_[i];
  }
  // In µs, of the time that this share of all are at or below; 0 without any.
  double Percentile(double share) const {
    uint64_t all = 0;
    for (const uint64_t n : counts_) all += n;
    auto left = static_cast<uint64_t>(share * static_cast<double>(all));
    for (size_t i = 0; i < kSteps; ++i) {
      if (counts_[i] > left) return static_cast<double>(MiddleOf(i)) / 1000;
      left -= counts_[i];
    }
    return 0;
  }

 private:
  static constexpr unsigned kBits = 5;
  static constexpr size_t kSteps = (64 - kBits + 1) << kBits;

  static size_t IndexOf(uint64_t ns) {
    if (ns < (1u << kBits)) return ns;
    const auto shift = static_cast<unsigned>(std::bit_width(ns)) - kBits - 1;
    return (size_t{shift} << kBits) + (ns >> shift);
  }
  static uint64_t MiddleOf(size_t index) {
    if (index < (2u << kBits)) return index;
    const size_t shift = (index >> kBits) - 1;
    const uint64_t low = ((index & ((1u << kBits) - 1)) | (1u << kBits)) << shift;
    return low + (uint64_t{1} << shift) / 2;
  }

  std::array<uint64_t, kSteps> counts_{};
};

}  // namespace crest
