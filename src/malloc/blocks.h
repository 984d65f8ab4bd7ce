// What the exported functions are made of: allocation with alignment, zeroing, resizing, sizes.
// They choose between the fast path, the slow path and the next allocator. All set ENOMEM when they
// return null for lack of memory, and keep errno otherwise. Sits in malloc.
#pragma once

#include <cstddef>

#include "base/placement.h"

namespace strata {

void* AllocateZeroed(size_t count, size_t size);
void* AllocateAligned(size_t size, size_t align);  // align: a power of two
// As Allocate, but where the placement says: hot and cold objects in their group, and otherwise
// large blocks and, from kLeastPlaced on, such as have a span to themselves.
void* AllocatePlaced(size_t size, Placement placement);
inline constexpr size_t kLeastPlaced = 32 << 10;
void* Reallocate(void* p, size_t size);
// To where the thread allocates now, a scope perhaps; null: no memory, and the block is as it was.
void* MoveByCopy(void* from, size_t old_size, size_t size);
size_t UsableSize(void* p);
// As Free, but what is no block's start is found at once, not when the block leaves the caches.
void FreeChecked(void* p);

}  // namespace strata
