// The process's limits: the watch on the cgroup's memory and CPU quota, what is done near the soft
// limit, and both limits' setters. Growth is counted by the page heap
// (hugepage/soft_limit.h); what only this layer can do, emptying the caches of all CPUs, is
// asked for by it and done here, and so is the bound on those caches by the CPU quota. Sits in
// malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "malloc/runtime.h"
#include "profile/heap_stats.h"

namespace strata {

// Once a round, from the background thread.
void LimitsTick();

STRATA_NOINLINE void RelieveMemory();
// Called on the slow path with no lock held, before the program touches what it got.
STRATA_ALWAYS_INLINE void RelieveMemoryIfNeeded() {
  if (STRATA_UNLIKELY(TheRuntime().heap.page_heap().relief_wanted() != 0)) RelieveMemory();
}

// At run time, from any thread. What lies free beyond the new limit goes back at once.
void SetSoftLimit(SoftLimitSetting soft);
void SetHeapLimit(size_t bytes);

// What is known without a new look; the page heap's two counts are left out.
LimitStats ReadLimits();

// What was found, as the rest of a line: ", cgroup limit 256 MiB, …". Looks. Returns `text`.
const char* LimitsInWords(char* text, size_t capacity);

}  // namespace strata
