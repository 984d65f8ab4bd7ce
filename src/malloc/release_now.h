// Emptying the caches, and giving free memory back at once, from every tier: for limits, and for
// users who ask. Sits in malloc.
#pragma once

#include <cstddef>

namespace strata {

struct Runtime;

// Sends what lies free in the caches of all CPUs and domains and of the calling thread down to the
// heap. Other threads' own caches, where rseq is not available, follow at their next miss. No lock
// held.
void EmptyFrontEnd(Runtime& r);

// At least `bytes` if there is that much; returns what was given back. Keeps errno.
size_t ReleaseBytes(size_t bytes);

}  // namespace strata
