// The part of operator new that runs when memory is short, for every library that replaces the
// operators. Sits in heaps; cxx_exports.inc defines the first, nothrow_new.cpp the second.
#pragma once

#include <cstddef>

namespace strata {

// Calls the new-handler and tries again until memory is there; throws std::bad_alloc when there is
// no handler, and lets pass what the handler throws. align: 1 for none.
void* NewSlow(size_t size, size_t align);

// The same for the nothrow forms: null where NewSlow throws.
void* NewSlowOrNull(size_t size, size_t align) noexcept;

}  // namespace strata
