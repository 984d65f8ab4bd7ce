// What the exported functions are made of: allocation with alignment, zeroing, resizing, sizes.
// They choose between the fast path, the slow path and the next allocator. All set ENOMEM when they
// return null for lack of memory, and keep errno otherwise. Sits in malloc.
#pragma once

#include <cstddef>

namespace strata {

void* AllocateZeroed(size_t count, size_t size);
void* AllocateAligned(size_t size, size_t align);  // align: a power of two
// For a chunk of a class: where the heap keeps what stays long, if it can.
void* AllocateLongLived(size_t size);
void* Reallocate(void* p, size_t size);
size_t UsableSize(void* p);
// As Free, but what is no block's start is found at once, not when the block leaves the caches.
void FreeChecked(void* p);

}  // namespace strata
