// KeyedRandom against values of a SipHash-2-4 that gives the paper's test vector, and that keys
// differ.
#include "base/keyed_random.h"

#include <gtest/gtest.h>

#include <set>

namespace strata {
namespace {

TEST(KeyedRandom, IsSipHashOfACounter) {
  // Key 00..0f; of the message of eight zero bytes, and of 01 00 .. 00.
  KeyedRandom r(0x0706050403020100u, 0x0f0e0d0c0b0a0908u);
  const uint64_t first = r.Next(), second = r.Next();
  EXPECT_EQ(first, 0x39d3851ca07681a7u);
  EXPECT_EQ(second, 0x2b91b2b085e6d1f6u);
}

TEST(KeyedRandom, KeysAndCallsDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t key = 0; key < 64; ++key) {
    KeyedRandom r(key, ~key), other(~key, key);
    for (int i = 0; i < 16; ++i) {
      seen.insert(r.Next());
      seen.insert(other.Next());
    }
  }
  EXPECT_EQ(seen.size(), 64u * 32);
}

}  // namespace
}  // namespace strata
