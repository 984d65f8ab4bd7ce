// The hash of a key, for tables.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace crest {

inline uint64_t HashOf(std::string_view key) {
  uint64_t h = 0x9e3779b97f4a7c15 ^ key.size();
  size_t at = 0;
  for (; at + 8 <= key.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, key.data() + at, 8);
    h = (h ^ word) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  }
  uint64_t tail = 0;
  std::memcpy(&tail, key.data() + at, key.size() - at);
  h = (h ^ tail) * 0xc4ceb9fe1a85ec53;
  return h ^ h >> 29;
}

// Buckets for so many keys: a power of two, one key a bucket.
constexpr size_t BucketsFor(size_t keys) {
  size_t n = 16;
  while (n < keys) n *= 2;
  return n;
}

}  // namespace crest
