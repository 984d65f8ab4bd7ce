// The clock, read without calling whoever interposes libc's function for it: libfaketime allocates
// in its first call, and clocks are read under the heap's locks. Sits in os.
#pragma once

#include <time.h>

#include <cstdint>

namespace strata {

using ClockFunction = int (*)(clockid_t, timespec*);

// Reads by this function from now on, which is to be libc's own; null keeps what the name is bound
// to. Before the first reading that could be under a lock.
void UseClock(ClockFunction clock);

uint64_t ReadClock(clockid_t clock);

}  // namespace strata
