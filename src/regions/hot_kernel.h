// The process's memory and clock as domains of moving objects see them. Sits in regions.
#pragma once

#include <cstdint>

#include "hotness/hot_memory.h"

namespace strata {

extern const HotMemory kProcessHotMemory;

// The address bits that the hardware looks at: all, but where LAM is on.
uint64_t AddressUntagMask();

// In the child of a fork: DAMON watches the parent.
void ForgetWatchInChild();

// Whether the system gives none to anybody.
bool HugepagesAreOff();

}  // namespace strata
