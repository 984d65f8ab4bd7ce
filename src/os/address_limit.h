// How many addresses a program has, and which of them are for the heap. Sits in os.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace strata {

// Where a program's addresses end, a power of two: 2^47, or less where the kernel's page tables
// have fewer levels, as for 39 bits on a Raspberry Pi.
inline constexpr uintptr_t kUsualLimit = uintptr_t{1} << 47;
uintptr_t AddressLimit();

// The window and the side arrays lie far from where the kernel places programs, stacks and
// mappings: from 16 to 80 of 128 TiB, or as much of what addresses there are.
constexpr uintptr_t LowestOf(uintptr_t limit) { return limit / 8; }
constexpr uintptr_t HighestOf(uintptr_t limit) { return limit / 8 * 5; }
constexpr uintptr_t MostOf(uintptr_t limit) { return limit / 8; }  // the largest window

// For a heap: 1 TiB, or four times the memory.
HugePages DefaultWindow();

}  // namespace strata
