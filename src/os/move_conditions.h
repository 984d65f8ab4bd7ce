// Whether memory may be moved by page tables (mremap), or address space be reserved, without
// anybody noticing. Sits in os, for system_kernel.cpp and malloc/guard.cpp.
#pragma once

namespace strata {

// False where a failure would leave a hole, for what was unmapped could not be mapped again: under
// a limit of address space or data, and where the kernel promises no more memory than there is.
// Also where memory is locked, which the kernel would unlock in the place that it leaves. Reads
// files: not with a lock held, and only where any system call is allowed. Keeps errno.
bool MayMoveMemory();

// False under a limit of address space, where the kernel promises no more memory than there is, and
// where memory is locked. The same holds for when to call it.
bool IsAddressSpaceFree();

}  // namespace strata
