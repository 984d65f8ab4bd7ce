// Takes a protocol buffer message apart, written apart from the writer in src/profile. For tests
// and fuzzers, which are to end where a message is malformed: the exception of at() does that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace strata::test {

using FieldMap = std::multimap<unsigned, std::string>;

// The fields of one message in their order: numbers as decimals, the rest as bytes.
inline FieldMap Fields(const std::string& bytes) {
  FieldMap found;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto b = static_cast<uint8_t>(bytes.at(at++));
      n |= uint64_t{b & 0x7fu} << shift;
      if (b < 0x80) return n;
    }
  };
  while (at < bytes.size()) {
    const uint64_t key = varint();
    const uint64_t n = varint();
    const auto field = static_cast<unsigned>(key / 8);
    if (key % 8 == 0) {
      found.emplace(field, std::to_string(n));
    } else if (key % 8 == 2 && n <= bytes.size() - at) {
      found.emplace(field, bytes.substr(at, n));
      at += n;
    } else {
      throw std::out_of_range("no varint and no bytes");
    }
  }
  return found;
}

inline std::vector<std::string> All(const FieldMap& fields, unsigned field) {
  std::vector<std::string> found;
  for (auto [i, end] = fields.equal_range(field); i != end; ++i) found.push_back(i->second);
  return found;
}

// A number, which is left out where it is 0.
inline uint64_t NumberOf(const FieldMap& fields, unsigned field) {
  const auto found = fields.find(field);
  return found == fields.end() ? 0 : std::stoull(found->second);
}

// The numbers that a repeated field holds as one.
inline std::vector<uint64_t> Packed(const FieldMap& fields, unsigned field) {
  std::vector<uint64_t> numbers;
  const auto found = fields.find(field);
  if (found == fields.end()) return numbers;
  unsigned shift = 0;
  uint64_t n = 0;
  for (const char c : found->second) {
    const auto b = static_cast<uint8_t>(c);
    n |= uint64_t{b & 0x7fu} << shift;
    shift += 7;
    if (b < 0x80) {
      numbers.push_back(n);
      n = shift = 0;
    }
  }
  return numbers;
}

}  // namespace strata::test
