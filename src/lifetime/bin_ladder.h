// The classes of predicted lifetimes of a bin packer as a ladder: class 0 is for what lives shorter
// than `base` ticks, each further class for `ratio` times that, the last for all that is longer. M.
// Maas et al., "Combining machine learning and lifetime-based resource management for memory
// allocation and beyond", CACM 67(4), 2024, section 2.2. A tick is whatever the caller's clock
// counts.
#pragma once

#include <cstdint>

namespace strata {

using BinClass = uint8_t;
using Ticks = uint64_t;
inline constexpr Ticks kNoTick = ~Ticks{0};
inline constexpr BinClass kMostBinClasses = 16;

constexpr Ticks AddTicks(Ticks a, Ticks b) { return a + b < a ? kNoTick : a + b; }
constexpr Ticks TimesTicks(Ticks a, uint64_t b) {
  return b != 0 && a > kNoTick / b ? kNoTick : a * b;
}

struct BinLadder {
  Ticks base = 10'000'000;  // 10 ms in nanoseconds
  uint32_t ratio = 10;
  BinClass count = 8;

  constexpr bool Valid() const {
    return base > 0 && ratio >= 2 && count >= 1 && count <= kMostBinClasses;
  }
  constexpr BinClass Longest() const { return static_cast<BinClass>(count - 1); }
  // What lives shorter than this belongs to the class. The longest class has no bound.
  constexpr Ticks Bound(BinClass c) const {
    if (c >= Longest()) return kNoTick;
    Ticks bound = base;
    for (BinClass i = 0; i < c; ++i) bound = TimesTicks(bound, ratio);
    return bound;
  }
  constexpr BinClass ClassOf(Ticks lifetime) const {
    BinClass c = 0;
    while (lifetime >= Bound(c) && c < Longest()) ++c;
    return c;
  }
};

}  // namespace strata
