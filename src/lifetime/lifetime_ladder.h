// The lifetime classes of LLAMA's heap as a ladder of seven rungs, each ten times as long as the
// one below, and the deadline of a huge page on a rung: K times the rung's bound. M. Maas et al.,
// "Combining machine learning and lifetime-based resource management for memory allocation and
// beyond", CACM 67(4), 2024, sections 3.2 and 3.4. Bottom of lifetime.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/placement.h"

namespace strata {

// 0: under 10 ms; each further one ten times that; 6: 1000 s and more, or never freed.
using Rung = uint8_t;
inline constexpr Rung kRungs = 7;
inline constexpr Rung kShortest = 0;
inline constexpr Rung kLongest = kRungs - 1;

// What nobody knows anything of is taken for the shortest: a wrong guess of that kind is found
// after K * 10 ms, from when on the page climbs and its holes are used again. On any higher rung
// the holes between such objects would wait longer, and a rung of its own would have no right
// deadline at all.
constexpr Rung RungOf(LifetimeClass c) {
  if (c == LifetimeClass::kUnknown) return kShortest;
  const auto rung = static_cast<Rung>(static_cast<Rung>(c) - 1);
  return rung < kLongest ? rung : kLongest;
}

// The longest has no bound; it counts as one step more, so that its pages are looked through for
// partly free spans from time to time.
constexpr uint64_t BoundNs(Rung r) {
  uint64_t ns = 10'000'000;
  for (; r > 0; --r) ns *= 10;
  return ns;
}

// The paper has 2 to 4: if all predictions are right a page is empty after 1.1 bounds.
constexpr uint64_t DeadlineAfter(uint64_t now, Rung r, uint64_t k = 2) {
  return now + k * BoundNs(r);
}

}  // namespace strata
