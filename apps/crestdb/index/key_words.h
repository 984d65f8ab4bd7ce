// Keys as the index structures compare them: byte strings of up to 255 bytes in memcmp order, a
// prefix before what it is a prefix of; and eight bytes of a key as one number that compares as the
// bytes do, which is what nodes keep side by side (Mao, Kohler, Morris, EuroSys 2012, section 4.2).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace crest {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kWord = sizeof(uint64_t);

// The bytes [at, at + 8) of the key, big end first; zeros stand for what lies behind its end. Keys
// with different words are in the order of these; with equal words it takes more to know.
inline uint64_t WordAt(std::string_view key, size_t at) {
  if (at >= key.size()) return 0;
  uint64_t word = 0;
  std::memcpy(&word, key.data() + at, std::min(kWord, key.size() - at));
  return __builtin_bswap64(word);
}

inline size_t CommonPrefix(std::string_view one, std::string_view other) {
  const size_t limit = std::min(one.size(), other.size());
  size_t at = 0;
  for (; at + kWord <= limit; at += kWord) {
    uint64_t a, b;
    std::memcpy(&a, one.data() + at, kWord);
    std::memcpy(&b, other.data() + at, kWord);
    if (a != b) return at + static_cast<size_t>(std::countr_zero(a ^ b)) / 8;
  }
  while (at < limit && one[at] == other[at]) ++at;
  return at;
}

// A key that is kept while what it was read from may go. Has room for the next key after the
// longest one, too; of a longer one it keeps what it can.
class KeyBuffer {
 public:
  static constexpr size_t kLongest = 255;

  void Assign(std::string_view key) {
    size_ = std::min(key.size(), sizeof bytes_);
    std::memcpy(bytes_, key.data(), size_);
  }
  void Append(std::string_view bytes) {
    std::memcpy(bytes_ + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void Append(char byte) { bytes_[size_++] = byte; }
  std::string_view view() const { return {bytes_, size_}; }

 private:
  size_t size_ = 0;
  char bytes_[kLongest + 1];
};

}  // namespace crest
