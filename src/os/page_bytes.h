// The size of the kernel's pages: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64. The heap counts in
// native pages of 4 KiB (base/units.h) whatever it is; what is asked of the kernel must be whole
// pages of its own, since it rounds lengths up. Sits in os.
#pragma once

#include <sys/auxv.h>

#include <cstddef>

#include "base/units.h"

namespace strata {

#ifdef __x86_64__
inline size_t KernelPageBytes() { return kNativePageSize; }
#else
inline size_t KernelPageBytes() { return getauxval(AT_PAGESZ); }
#endif

}  // namespace strata
