// Unpacks what the gzip writer makes, written from RFC 1951 and 1952 apart from it: one fixed-code
// or stored block after another. Checks the checksum and the size. For tests and fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "profile/gzip.h"

namespace strata::test {

class Inflater {
 public:
  explicit Inflater(const std::string& data) : data_(data) {}

  // Nothing if the data is no gzip member that ends where the data ends.
  std::optional<std::string> Run() {
    if (data_.size() < 18 || data_.compare(0, 4, std::string("\x1f\x8b\x08\0", 4)) != 0) return {};
    at_ = 10 * 8;
    bool last = false;
    while (!last && ok_) {
      last = Bits(1) == 1;
      const uint32_t kind = Bits(2);
      if (kind != 1) return {};
      FixedBlock();
    }
    at_ = (at_ + 7) & ~size_t{7};
    const uint32_t crc = Word(), size = Word();
    if (!ok_ || at_ != data_.size() * 8) return {};
    if (crc != Crc32(out_.data(), out_.size()) || size != static_cast<uint32_t>(out_.size()))
      return {};
    return out_;
  }

 private:
  uint32_t Bits(unsigned n) {
    uint32_t value = 0;
    for (unsigned i = 0; i < n; ++i, ++at_) {
      if (at_ / 8 >= data_.size()) {
        ok_ = false;
        return 0;
      }
      value |= static_cast<uint32_t>(static_cast<uint8_t>(data_[at_ / 8]) >> (at_ % 8) & 1) << i;
    }
    return value;
  }
  uint32_t Word() {
    const uint32_t low = Bits(16);
    return low | Bits(16) << 16;
  }
  uint32_t Code(unsigned n) {
    uint32_t code = 0;
    for (unsigned i = 0; i < n; ++i) code = code << 1 | Bits(1);
    return code;
  }
  // 7 bits: 256-279; 8: 0-143 and 280-287; 9: 144-255.
  uint32_t Symbol() {
    uint32_t code = Code(7);
    if (code < 0b0011000) return 256 + code;
    code = code << 1 | Bits(1);
    if (code < 0b11000000) return code - 0b00110000;
    if (code < 0b11001000) return 280 + code - 0b11000000;
    return 144 + (code << 1 | Bits(1)) - 0b110010000;
  }
  void FixedBlock() {
    for (uint32_t symbol; ok_ && (symbol = Symbol()) != 256;) {
      if (symbol < 256) {
        out_.push_back(static_cast<char>(symbol));
        continue;
      }
      if (symbol > 285) {
        ok_ = false;
        return;
      }
      const size_t length = Value(symbol - 257, 4, 3, 258, 28);
      const uint32_t group = Code(5);
      const size_t distance = Value(group, 2, 1, 0, 99);
      if (group > 29 || distance > out_.size()) {
        ok_ = false;
        return;
      }
      for (size_t i = 0; i < length; ++i) out_.push_back(out_[out_.size() - distance]);
    }
  }
  // Groups come `per_size` to each number of extra bits (twice that many without any).
  size_t Value(uint32_t group, uint32_t per_size, size_t first, size_t special,
               uint32_t special_at) {
    if (group == special_at) return special;
    size_t base = first;
    for (uint32_t g = 0; g < group; ++g) base += size_t{1} << ExtraBits(g, per_size);
    return base + Bits(ExtraBits(group, per_size));
  }
  static unsigned ExtraBits(uint32_t group, uint32_t per_size) {
    return group < 2 * per_size ? 0 : group / per_size - 1;
  }

  const std::string& data_;
  size_t at_ = 0;  // in bits
  bool ok_ = true;
  std::string out_;
};

inline std::optional<std::string> Inflate(const std::string& data) { return Inflater(data).Run(); }

}  // namespace strata::test
