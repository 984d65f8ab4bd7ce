// The rule of tokens.h, byte for byte as strata/learn/tokens.py. Sits in lifetime.
#include "lifetime/tokens.h"

#include <cstring>

namespace strata {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsInWord(char c) {
  return IsDigit(c) || IsUpper(c) || IsLower(c) || static_cast<unsigned char>(c) >= 128;
}

bool IsHex(const char* text, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    if (!IsDigit(text[i]) && !(text[i] >= 'a' && text[i] <= 'f')) return false;
  }
  return length > 0;
}

size_t Until(const char* text, size_t length, char end) {
  const void* at = memchr(text, end, length);
  return at == nullptr ? length : static_cast<size_t>(static_cast<const char*>(at) - text);
}

// A build id and an offset, which stand for a function without a symbol: how long the build id is,
// or 0 if the name is something else.
size_t BuildOfPlace(const char* name, size_t length) {
  const size_t plus = Until(name, length, '+');
  const bool is_place = length > plus + 3 && memcmp(name + plus, "+0x", 3) == 0 &&
                        IsHex(name, plus) && IsHex(name + plus + 3, length - plus - 3);
  return is_place ? plus : 0;
}

// Where the place of a frame begins: behind " <", and it ends with ">". `length` if it has none.
size_t BeginOfSite(const char* frame, size_t length) {
  if (length == 0 || frame[length - 1] != '>') return length;
  size_t at = length - 1;
  while (at > 0 && frame[at] != '<') --at;
  const bool is_site =
      at > 0 && frame[at - 1] == ' ' && BuildOfPlace(frame + at + 1, length - at - 2) != 0;
  return is_site ? at : length;
}

bool IsRustHash(const char* text, size_t length) {
  return length == 17 && text[0] == 'h' && IsHex(text + 1, 16);
}

void Add(const char* text, size_t length, TokenHashes* out) {
  if (out->count < kMostTokens) out->hash[out->count++] = HashOfToken(text, length);
}

void AddWords(const char* text, size_t length, TokenHashes* out) {
  size_t begin = 0;
  for (size_t at = 0; at <= length; ++at) {
    if (at < length && IsInWord(text[at])) continue;
    if (at > begin) Add(text + begin, at - begin, out);
    begin = at + 1;
  }
}

// Behind a substitution or a template parameter, such as S1_ or T_; `at` is at its letter.
size_t AfterSubstitution(const char* name, size_t length, size_t at) {
  size_t stop = at + 1;
  while (stop < length && (IsDigit(name[stop]) || IsUpper(name[stop]))) ++stop;
  return stop < length && name[stop] == '_' ? stop + 1 : at + 1;
}

// Behind a literal such as Li42E; `at` itself if there is none.
size_t AfterLiteral(const char* name, size_t length, size_t at) {
  if (name[at] != 'L' || at + 2 >= length || !IsLower(name[at + 1])) return at;
  size_t stop = at + 2;
  while (stop < length && (IsDigit(name[stop]) || name[stop] == 'n')) ++stop;
  return stop < length && stop > at + 2 && name[stop] == 'E' ? stop + 1 : at;
}

// The names in a mangled one (Itanium C++ ABI, 5.1): each has its length in front.
void AddIdentifiers(const char* name, size_t length, TokenHashes* out) {
  for (size_t at = 2; at < length;) {
    if (name[at] == 'S' || name[at] == 'T') {
      at = AfterSubstitution(name, length, at);
      continue;
    }
    const size_t behind = AfterLiteral(name, length, at);
    if (behind != at || !IsDigit(name[at])) {
      at = behind == at ? at + 1 : behind;
      continue;
    }
    size_t bytes = 0;
    for (; at < length && IsDigit(name[at]); ++at) {
      bytes = bytes * 10 + static_cast<size_t>(name[at] - '0');
      if (bytes > kMostNameBytes) bytes = kMostNameBytes;
    }
    if (bytes > length - at) return;
    if (!IsRustHash(name + at, bytes)) AddWords(name + at, bytes, out);
    at += bytes;
  }
}

}  // namespace

uint64_t HashOfToken(const char* text, size_t length) {
  uint64_t value = 0xCBF29CE484222325;
  for (size_t i = 0; i < length; ++i) {
    value = (value ^ static_cast<unsigned char>(text[i])) * 0x100000001B3;
  }
  return value == 0 ? 1 : value;
}

void Tokenize(const char* name, size_t length, TokenHashes* out) {
  out->count = 0;
  out->site = 0;
  if (const size_t site = BeginOfSite(name, length); site != length) {
    out->site = HashOfToken(name + site, length - site);
    length = site - 1;
  }
  if (length > kMostNameBytes) length = kMostNameBytes;
  if (const size_t build = BuildOfPlace(name, length); build != 0) {
    Add(name, build, out);
    return Add(name, length, out);
  }
  if (length >= 2 && memcmp(name, "_Z", 2) == 0) {
    const size_t dot = Until(name, length, '.');
    return AddIdentifiers(name, Until(name, dot, '@'), out);
  }
  const size_t plain = Until(name, length, '@');
  const size_t dot = Until(name, plain, '.');
  AddWords(name, dot == 0 ? plain : dot, out);
}

}  // namespace strata
