// Splits what a frame is called into tokens, by a rule that strata/learn/tokens.py has as well:
// tests/lifetime/golden/tokens.txt holds both to it. After M. Maas et al., "Learning-based memory
// allocation for C++ server workloads", ASPLOS 2020, section 5.2, but from symbols as they stand in
// ELF tables, because a running program cannot demangle. Sits in lifetime.
//
// What a frame is called: the symbol in .symtab, or in .dynsym if there is none, with the greatest
// address not above the frame's, if it reaches that far; of several the last in the table. Inlined
// functions do not count. A function without a symbol is its file's build id (the first 16 digits),
// +0x, and in hexadecimal where .eh_frame_hdr says that it begins; without that, the frame's offset
// in the file. Behind the function stands the place: a space, <, the first 16 digits of the build
// id, +0x, the offset in the file of the return address less one in hexadecimal, >. A file without
// a build id has none. The place with its brackets is one token; training takes each stack a second
// time without its places. The rest is split:
//   1. Of a name the first kMostNameBytes count, and of its tokens the first kMostTokens.
//   2. [0-9a-f]+ +0x [0-9a-f]+, a build id and a place, is two tokens: the build id, and the whole.
//   3. A name that begins with _Z ends at its first . or @. From its third byte on:
//      - S or T is passed over, with the digits and capitals behind it if _ follows them, and _;
//      - L, a small letter, digits or n, E are passed over: a literal;
//      - a decimal number is the length of an identifier, which follows it. One that reaches beyond
//        the end ends the name. One of 17 bytes that is h and 16 hexadecimal digits is Rust's hash,
//        and dropped. The others are split into words;
//      - any other byte is passed over.
//   4. Any other name ends at its first @, then at its first . unless it begins with that. It is
//      split into words.
//   5. Words are runs of ASCII letters, digits and bytes from 128 on.
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
