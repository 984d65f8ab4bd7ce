// A file that exists only in memory: where an answer is written before a slow reader gets it piece
// by piece. Sits in os.
#pragma once

#include <cstddef>

namespace strata {

// An empty one, or -1 with errno. The name is what /proc shows of it.
int OpenMemoryFile(const char* name = "strata");
// The length of what was written to it.
size_t MemoryFileLength(int fd);

}  // namespace strata
