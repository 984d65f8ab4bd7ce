// What a simulation measures: what was held and what of it was live, on average over time, at the
// peak, and in so many equal parts of the run. Held is in bins, live in slots or bytes. Part of
// strata-simulate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace strata::simulate {

struct Span {  // sums over time: divide by how long it was
  double held = 0, live = 0, bound = 0;
};

class Meter {
 public:
  // `unit`: how much of what is live a bin takes.
  Meter(uint64_t begin, uint64_t end, uint64_t unit, size_t parts)
      : begin_(begin), end_(end), unit_(unit), now_(begin), parts_(std::max<size_t>(parts, 1)) {}

  // What was set last held until now. A clock that went back has not moved.
  void Advance(uint64_t now) {
    now = std::min(now, end_);
    while (now_ < now) {
      const size_t part = PartOf(now_);
      const uint64_t until = std::min(now, EndOf(part));
      const auto length = static_cast<double>(until - now_);
      parts_[part].held += length * static_cast<double>(held_);
      parts_[part].live += length * static_cast<double>(live_);
      parts_[part].bound += length * static_cast<double>(Bound());
      now_ = until;
    }
  }

  void Set(uint64_t held, uint64_t live) {
    held_ = held;
    live_ = live;
    held_peak_ = std::max(held_peak_, held);
    live_peak_ = std::max(live_peak_, live);
  }

  uint64_t held_peak() const { return held_peak_; }
  uint64_t live_peak() const { return live_peak_; }
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  size_t parts() const { return parts_.size(); }
  uint64_t EndOf(size_t part) const {
    const auto length = static_cast<unsigned __int128>(end_ - begin_);
    return begin_ + static_cast<uint64_t>(length * (part + 1) / parts_.size());
  }

  // Averages over one part, and over all. Nothing lasts in a run without length.
  Span Part(size_t part) const {
    const uint64_t from = part == 0 ? begin_ : EndOf(part - 1);
    return Divided(parts_[part], EndOf(part) - from);
  }
  Span Whole() const {
    Span sum;
    for (const Span& part : parts_) {
      sum.held += part.held;
      sum.live += part.live;
      sum.bound += part.bound;
    }
    return Divided(sum, end_ - begin_);
  }

 private:
  // The least bins that what is live could lie in.
  uint64_t Bound() const { return (live_ + unit_ - 1) / unit_; }

  size_t PartOf(uint64_t now) const {
    const auto at = static_cast<unsigned __int128>(now - begin_) * parts_.size();
    auto part = static_cast<size_t>(at / (end_ - begin_));
    while (EndOf(part) <= now) ++part;
    return part;
  }
  static Span Divided(Span sum, uint64_t by) {
    if (by == 0) return {};
    const auto length = static_cast<double>(by);
    return {sum.held / length, sum.live / length, sum.bound / length};
  }

  uint64_t begin_, end_, unit_, now_;
  uint64_t held_ = 0, live_ = 0, held_peak_ = 0, live_peak_ = 0;
  std::vector<Span> parts_;
};

}  // namespace strata::simulate
