// The part of operator new that runs when memory is short. Sits in malloc.
#pragma once

#include <cstddef>

namespace strata {

// Calls the new-handler and tries again until memory is there; throws std::bad_alloc when there is
// no handler, and lets pass what the handler throws.
void* NewSlow(size_t size, size_t align);

}  // namespace strata
