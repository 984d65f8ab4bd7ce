// What happens when free gets a pointer that is not a live block: one line on stderr, then abort or
// go on, by STRATA_ON_ERROR. Sits in malloc.
#pragma once

#include "heaps/block_lookup.h"

namespace strata {

void HandleBadFree(BadFree kind, void* p);
[[noreturn]] void DieOfWrongSize(void* p, size_t size, size_t align);

}  // namespace strata
