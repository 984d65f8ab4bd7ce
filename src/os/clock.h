// The clock, read without calling whoever interposes libc's function for it: libfaketime allocates
// in its first call, and clocks are read under the heap's locks. Sits in os.
#pragma once

#include <time.h>

#include <cstdint>

namespace strata {

uint64_t ReadClock(clockid_t clock);

}  // namespace strata
