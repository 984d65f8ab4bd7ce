// Memory for the heap's metadata, and how much of it is resident. Sits in os.
#pragma once

#include <cstddef>

namespace strata {

// Zeroed memory for metadata, or null. Keeps errno. What is mapped so is remembered, to be
// measured.
void* MapMetadata(size_t bytes);
// Resident bytes of all of it.
size_t ResidentMetadata();

}  // namespace strata
