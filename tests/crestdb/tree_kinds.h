// The four trees with both kinds of values, for typed tests, and keys that are awkward for them.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "index/art.h"
#include "index/coarse_btree.h"
#include "index/masstree.h"
#include "index/occ_btree.h"
#include "restless_values.h"

namespace crest {

template <template <class> class Tree, class V>
struct TreeKind {
  using Values = V;
  using Scope = typename V::Scope;
  using Test = TestIndex<Tree<V>, V>;
};
using TreeKinds =
    testing::Types<TreeKind<CoarseBTree, PlainValues>, TreeKind<OccBTree, PlainValues>,
                   TreeKind<Masstree, PlainValues>, TreeKind<Art, PlainValues>,
                   TreeKind<CoarseBTree, GuidedValues>, TreeKind<OccBTree, GuidedValues>,
                   TreeKind<Masstree, GuidedValues>, TreeKind<Art, GuidedValues>>;

// How much to do: all is many times slower under a sanitizer.
#ifdef STRATA_SANITIZED
inline constexpr int kEffort = 1;
#else
inline constexpr int kEffort = 5;
#endif

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
