// Where an instruction program gets its choices: bytes from a fuzzer, or from a seed. A program
// ends when they run out. The same interpreter serves GoogleTest and libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace strata::test {

class ProgramBytes {
 public:
  ProgramBytes(const uint8_t* data, size_t n) : data_(data), end_(data + n) {}
  explicit ProgramBytes(const std::vector<uint8_t>& v) : ProgramBytes(v.data(), v.size()) {}

  bool done() const { return data_ == end_; }
  uint8_t Byte() { return done() ? uint8_t{0} : *data_++; }
  // In [0, n), n at most 2^24.
  size_t Below(size_t n) {
    if (n <= 1) return 0;
    size_t v = Byte();
    for (size_t reach = 256; reach < n; reach <<= 8) v = v << 8 | Byte();
    return v % n;
  }

 private:
  const uint8_t* data_;
  const uint8_t* end_;
};

inline std::vector<uint8_t> RandomBytes(uint64_t seed, size_t n) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace strata::test
