// Text of words as languages have them: few words make most of it, and most words come seldom.
#pragma once

#include <string>

#include "common.h"

namespace bench {

// The most letters of a word, by how rare it is.
struct WordLengths {
  uint64_t common, usual, rare;
};

// Cubed uniform.
inline uint64_t WordRank(Random& random, uint64_t vocabulary) {
  const uint64_t u = random.Below(1 << 20);
  return vocabulary * u / (1 << 20) * u / (1 << 20) * u / (1 << 20);
}

// The word of a rank: two letters and more that follow from the rank alone.
inline void AppendWord(std::string& text, uint64_t rank, const WordLengths& lengths) {
  Random letters(rank + 1);
  const uint64_t longest = rank < 1000     ? lengths.common
                           : rank < 50'000 ? lengths.usual
                                           : lengths.rare;
  for (uint64_t n = letters.Between(2, longest); n != 0; --n) {
    text.push_back(static_cast<char>('a' + letters.Below(26)));
  }
  text.push_back(' ');
}

}  // namespace bench
