// Keys that are awkward for structures, for tests of every one of them.
#pragma once

#include <string>

namespace crest {

// Keys of one kind each; different n, or different owners, mostly make different keys.
using MakeKey = std::string (*)(unsigned n, unsigned owner);

inline std::string Decimal(unsigned n, unsigned owner) {
  return "user" + std::to_string(n * 2654435761u) + "/" + std::to_string(owner);
}
// Prefixes of up to 25 times eight bytes, of which some keys end right there.
inline std::string SharedPrefix(unsigned n, unsigned owner) {
  std::string key((n % 25 + 1) * 8, 'p');
  if (n % 5 != 0) key += std::to_string(n % 83) + std::string(n % 3, '\0');
  key[0] = static_cast<char>('a' + owner);
  return key;
}
// Zeros, so that keys are prefixes of each other by nothing but zeros.
inline std::string MostlyZeros(unsigned n, unsigned owner) {
  std::string key(1, static_cast<char>(owner));
  for (unsigned i = n % 19; i != 0; --i) key.push_back(static_cast<char>((n >> i) % 29 == 0));
  return key;
}
// Nodes with many children below a prefix.
inline std::string Bushy(unsigned n, unsigned owner) {
  return std::string(20, '\xff') + static_cast<char>(n) + static_cast<char>(owner) +
         static_cast<char>(n >> 8);
}
inline constexpr MakeKey kKeyKinds[] = {Decimal, SharedPrefix, MostlyZeros, Bushy};

}  // namespace crest
