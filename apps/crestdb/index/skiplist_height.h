// How many levels a skip list's node gets: one more with each toss of a coin that comes out one in
// four (Pugh, CACM 33(6), 1990).
#pragma once

#include <cstdint>

namespace crest {

inline constexpr int kMostLevels = 16;  // for 4^16 keys

inline int RandomHeight() {
  thread_local uint64_t state = 0x9e3779b97f4a7c15 ^ reinterpret_cast<uintptr_t>(&state);
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  int height = 1;
  for (uint64_t bits = state; (bits & 3) == 0 && height < kMostLevels; bits >>= 2) ++height;
  return height;
}

}  // namespace crest
