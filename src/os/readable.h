// Whether memory can be read, asked of the kernel without a chance to fault. Sits in os.
#pragma once

#include <cstdint>

namespace strata {

// Whether the 8 bytes at a multiple of 8 can be read; by that the whole native page can. Safe
// anywhere: one system call that no seccomp filter can do without, errno left alone.
bool IsReadable(uintptr_t address);

}  // namespace strata
