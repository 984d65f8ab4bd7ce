// Splits what a frame is called into tokens, by the rule of docs/model-format.md, which
// strata/learn/tokens.py has as well: tests/lifetime/golden/tokens.txt holds both to it. After M.
// Maas et al., "Learning-based memory allocation for C++ server workloads", ASPLOS 2020, section
// 5.2, but from symbols as they stand in ELF tables. Sits in lifetime.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

inline constexpr size_t kMostTokens = 16;       // of a frame
inline constexpr size_t kMostNameBytes = 4096;  // the rest is not looked at

// FNV-1a of a token; never 0, which marks a free place in the table of tokens.
uint64_t HashOfToken(const char* text, size_t length);

// What becomes of a frame: its function's, in order, and that of the place in its file.
struct TokenHashes {
  uint64_t hash[kMostTokens];
  size_t count = 0;
  uint64_t site = 0;  // 0: it says no place
};
void Tokenize(const char* frame, size_t length, TokenHashes* out);

}  // namespace strata
