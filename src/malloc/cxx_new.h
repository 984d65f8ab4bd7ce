// The part of operator new that runs when memory is short. Sits in malloc.
#pragma once

#include <cstddef>
#include <new>

namespace strata {

// Calls the new-handler and tries again until memory is there; throws std::bad_alloc when there is
// no handler, and lets pass what the handler throws.
void* NewSlow(size_t size, size_t align);

// The library's own operators, also where the program has put others in their place. With the
// attributes that gcc gives to every operator new.
extern "C" {
__attribute__((visibility("hidden"), malloc, alloc_size(1))) void* strata_own_new(size_t size);
__attribute__((visibility("hidden"), malloc, alloc_size(1))) void* strata_own_new_aligned(
    size_t size, std::align_val_t align);
}

}  // namespace strata
