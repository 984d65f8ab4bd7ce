// STRATA_CHECK: every block of the program's is a checked one (heaps/checked_blocks.h), for a
// debugging run. Threads get no caches then, so that each call takes the slow path and ends here.
// Sits in malloc, beside slow_path.cpp.
#pragma once

#include <cstddef>

#include "malloc/runtime.h"

namespace strata {

namespace checked_internal {
extern bool g_checks;
}  // namespace checked_internal

// Set once, at the start.
STRATA_ALWAYS_INLINE bool Checks() { return STRATA_UNLIKELY(checked_internal::g_checks); }

void StartChecks(const Options& options);

// Null with ENOMEM.
STRATA_NOINLINE void* AllocateChecked(size_t size, size_t align);
// Of any pointer into the heap.
STRATA_NOINLINE void FreeChecks(void* p);
STRATA_NOINLINE void* ReallocateChecked(void* p, size_t size);
// 0: p is no live block.
STRATA_NOINLINE size_t SizeChecked(void* p);

// Reports the first block that something was written beside, or into after it was freed.
void CheckAllAtExit();
// For the fork handlers; null: nothing is checked.
Lock* LockOfChecks();

}  // namespace strata
