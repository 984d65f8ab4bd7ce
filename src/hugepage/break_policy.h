// Whether pages of one hugepage go back to the kernel: what it frees against what a broken hugepage
// costs. Pure; the page heap takes the snapshot. After M. Maas et al., "Adaptive huge-page
// subrelease for non-moving memory allocators in warehouse-scale computers", ISMM 2021, which asks
// whether demand will want the pages; this asks, for each hugepage, whether they are worth it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace strata {

// What the program does, as far as giving back is concerned.
enum class Program : uint8_t {
  kWorks,   // calls the allocator, or uses its CPUs
  kRests,   // neither
  kIsShort  // of memory: a limit is near, a request would fail, or somebody asked
};

struct BreakSnapshot {
  bool whole;   // not broken yet
  size_t gain;  // native pages with memory that would go: free, idle or both
  Program program;
  uint32_t stood;  // for how many whole ticks it has got no fuller
};

// A whole hugepage saves every access to it a part of a page walk, and a refill up to 512 faults,
// so while the program works a quarter of it must go; at rest less, and less still of one that has
// stood for long.
inline constexpr size_t kBreakWorking = kNativePerHugePage / 4;
inline constexpr size_t kBreakResting = kNativePerHugePage / 16;
inline constexpr size_t kBreakRested = kNativePerHugePage / 32;
// A broken one is soon rebuilt if little is missing, so a little more isn't taken.
inline constexpr size_t kFromBroken = kNativePerHugePage / 32;
// One that was just refilled is wanted, so more of it must go; but where a program replaces blocks
// all the time, all are refilled now and then, and one that is nearly empty still goes.
inline constexpr size_t kBreakRefilled = kNativePerHugePage / 2;
inline constexpr uint32_t kStoodWorking = 5, kStoodResting = 1, kStoodLong = 120;

// How many times as much must go at work.
constexpr size_t TimesAtWork(uint32_t stood) {
  return stood >= kStoodWorking ? 1 : stood != 0 ? 2 : 3;
}

// Native pages that breaking a whole hugepage must free at least.
constexpr size_t LeastGain(Program program, uint32_t stood) {
  switch (program) {
    case Program::kWorks:
      return TimesAtWork(stood) * kBreakWorking;
    case Program::kRests:
      if (stood < kStoodResting) return kBreakRefilled;
      return stood < kStoodLong ? kBreakResting : kBreakRested;
    case Program::kIsShort:
      break;
  }
  return 0;
}

constexpr bool IsWorthBreaking(const BreakSnapshot& s) {
  if (s.whole) return s.gain >= LeastGain(s.program, s.stood);
  return s.program != Program::kWorks || s.gain >= TimesAtWork(s.stood) * kFromBroken;
}

}  // namespace strata
