// The clock, read without calling whoever interposes libc's function for it: libfaketime allocates
// in its first call, and clocks are read under the heap's locks. Where libc's own can't be told, on
// musl and in a static program, it is the kernel's of the vDSO. A system call would not do instead:
// a filter may forbid it. Where the vDSO is hidden there, as Valgrind does, it is whatever the name
// is bound to. Sits in os.
#pragma once

#include <time.h>

#include <cstdint>

namespace strata {

uint64_t ReadClock(clockid_t clock);

}  // namespace strata
