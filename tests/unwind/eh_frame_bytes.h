// Writes .eh_frame sections by hand, for tests: CIEs and FDEs from their parts, with lengths filled
// in.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "profile/unwind/eh_frame.h"

namespace strata::test {

using Bytes = std::vector<uint8_t>;

// The program that compilers begin with: CFA = rsp + 8, return address at CFA - 8.
inline const Bytes kUsualStart = {0x0c, 7, 8, 0x90, 1};

class FrameBytes {
 public:
  explicit FrameBytes(uintptr_t address) : address_(address) {}

  // Returns its offset. Pointers are 4 bytes, relative to themselves.
  uint32_t Common(const Bytes& program = kUsualStart, const std::string& augmentation = "zR",
                  const Bytes& augmentation_data = {0x1b}, uint8_t version = 1) {
    Bytes body;
    Put<uint32_t>(body, 0);
    body.push_back(version);
    for (const char c : augmentation) body.push_back(static_cast<uint8_t>(c));
    body.push_back(0);
    body.insert(body.end(), {1, 0x78, 16});  // code align 1, data align -8, return register
    if (!augmentation.empty() && augmentation[0] == 'z') {
      body.push_back(static_cast<uint8_t>(augmentation_data.size()));
      body.insert(body.end(), augmentation_data.begin(), augmentation_data.end());
    }
    body.insert(body.end(), program.begin(), program.end());
    return Entry(std::move(body));
  }

  uint32_t Frame(uint32_t common, uintptr_t begin, uint32_t size, const Bytes& program) {
    const size_t at = bytes_.size();
    Bytes body;
    Put<uint32_t>(body, static_cast<uint32_t>(at + 4 - common));
    Put<uint32_t>(body, static_cast<uint32_t>(begin - (address_ + at + 8)));
    Put<uint32_t>(body, size);
    body.push_back(0);  // no augmentation data
    body.insert(body.end(), program.begin(), program.end());
    return Entry(std::move(body));
  }

  void End() { Put<uint32_t>(bytes_, 0); }

  Bytes& bytes() { return bytes_; }
  EhFrame section() const { return {bytes_.data(), bytes_.size(), address_}; }

 private:
  template <class T>
  static void Put(Bytes& to, T value) {
    uint8_t raw[sizeof(T)];
    memcpy(raw, &value, sizeof(T));
    to.insert(to.end(), raw, raw + sizeof(T));
  }

  uint32_t Entry(Bytes body) {
    const auto offset = static_cast<uint32_t>(bytes_.size());
    while (body.size() % 4 != 0) body.push_back(0);
    Put<uint32_t>(bytes_, static_cast<uint32_t>(body.size()));
    bytes_.insert(bytes_.end(), body.begin(), body.end());
    return offset;
  }

  uintptr_t address_;
  Bytes bytes_;
};

}  // namespace strata::test
