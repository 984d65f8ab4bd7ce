// Small objects in groups (base/object_group.h): by the hint of the call, or by its context with
// STRATA_CONTEXTS. They come from their group's own lists and go back to them, on the slow path
// alone: threads come here for contexts because their stretches end (sampling.cpp), and a bit of
// the page map sends every free here. Sits in malloc, beside slow_path.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/object_group.h"
#include "base/size_class.h"
#include "malloc/allocation_site.h"
#include "malloc/runtime.h"
#include "span/span.h"

namespace strata {

namespace grouped_internal {
extern __attribute__((visibility("hidden"))) std::atomic<uint32_t> g_contexts;
}  // namespace grouped_internal

// How many groups contexts are divided into; 0: none. Set once, before there are threads.
STRATA_ALWAYS_INLINE uint32_t Contexts() {
  return grouped_internal::g_contexts.load(std::memory_order_relaxed);
}
void SetContexts(uint32_t contexts);

// As AllocateCounted, in the group of the caller's context where there can be one.
STRATA_NOINLINE void* AllocateInContext(AllocationSite site, size_t size);

// In a group; counts. The instance is ready, `c` a class that serves the size.
void* AllocateInGroup(size_t size, SizeClass c, ObjectGroup group);
// For a block that takes the place of one in a group; counts nothing. Null: memory is short.
void* TakeInGroup(size_t size, SizeClass c, ObjectGroup group);

// An object that is freed goes back to its group; false: it is in none.
STRATA_NOINLINE bool GiveToGroup(Runtime& r, void* p);

// Of the object at p, which lies in the heap; kNone for all that is in no group.
ObjectGroup GroupOfObject(const Runtime& r, const void* p);

}  // namespace strata
