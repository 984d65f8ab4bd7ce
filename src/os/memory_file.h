// A file that exists only in memory: where an answer is written before a slow reader gets it piece
// by piece. Sits in os.
#pragma once

#include <cstddef>

namespace strata {

// An empty one, or -1 with errno.
int OpenMemoryFile();
// The length of what was written to it.
size_t MemoryFileLength(int fd);

}  // namespace strata
