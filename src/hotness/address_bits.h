// Whether a guide can hold the addresses of this process. Sits in hotness.
#pragma once

#include <cstdint>

#include "base/arch.h"

namespace strata {

// Null: it can; else why not. untag_mask: the address bits that the hardware looks at (arch_prctl's
// ARCH_GET_UNTAG_MASK). sample: an address of the process; a CPU and kernel with LA57 give larger
// ones only to programs that ask for them, so that they could is no reason to refuse.
constexpr const char* WhyGuidesCannotHold(uint64_t untag_mask, uintptr_t sample) {
  if (untag_mask != ~uint64_t{0}) return "the upper bits of addresses are in use (LAM)";
  if (sample >> arch::kAddressBits != 0)
    return "addresses have more bits than usual (LA57 of x86-64, LVA of Arm)";
  return nullptr;
}

}  // namespace strata
