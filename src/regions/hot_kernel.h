// The process's memory and clock as domains of moving objects see them. Sits in regions.
#pragma once

#include <cstdint>

#include "hotness/hot_memory.h"

namespace strata {

extern const HotMemory kProcessHotMemory;

// Why a guide cannot hold addresses of this process; null: it can. untag_mask: of address bits that
// the hardware looks at (arch_prctl's ARCH_GET_UNTAG_MASK), sample: an address.
const char* WhyGuidesCannotHold(uint64_t untag_mask, uintptr_t sample);
uint64_t AddressUntagMask();

}  // namespace strata
