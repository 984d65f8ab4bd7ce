// The loop that both false-sharing programs time: a malloc, many writes to every byte of the
// object, a free. There are so few calls to the allocator that only the placement of the objects
// counts: two threads' objects on one cache line make the writes many times slower.
#pragma once

#include "common.h"

namespace bench {

inline void WriteMany(volatile char* object, size_t size, uint64_t repetitions) {
  for (uint64_t r = 0; r < repetitions; ++r) {
    for (size_t i = 0; i < size; ++i) object[i] = static_cast<char>(object[i] + 1);
  }
}

// Gives the number of byte writes.
inline uint64_t ActiveLoop(uint64_t iterations, size_t size, uint64_t repetitions) {
  for (uint64_t i = 0; i < iterations; ++i) {
    auto* object = static_cast<char*>(CheckedMalloc(size));
    memset(object, 0, size);
    WriteMany(object, size, repetitions);
    free(object);
  }
  return iterations * size * repetitions;
}

}  // namespace bench
