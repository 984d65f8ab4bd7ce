// The library's own operators, also where the program has put others in their place. Sits in
// malloc.
#pragma once

#include <cstddef>
#include <new>

#include "heaps/preload/cxx_new.h"

namespace strata {

// With the attributes that gcc gives to every operator new.
extern "C" {
__attribute__((visibility("hidden"), malloc, alloc_size(1))) void* strata_own_new(size_t size);
__attribute__((visibility("hidden"), malloc, alloc_size(1))) void* strata_own_new_array(
    size_t size);
__attribute__((visibility("hidden"), malloc, alloc_size(1))) void* strata_own_new_nothrow(
    size_t size, const std::nothrow_t& tag) noexcept;
__attribute__((visibility("hidden"), malloc, alloc_size(1))) void* strata_own_new_array_nothrow(
    size_t size, const std::nothrow_t& tag) noexcept;
__attribute__((visibility("hidden"), malloc, alloc_size(1))) void* strata_own_new_aligned(
    size_t size, std::align_val_t align);
}

}  // namespace strata
