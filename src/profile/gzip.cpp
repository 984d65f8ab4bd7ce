// gzip to a file descriptor. See gzip.h.
#include "profile/gzip.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/write_all.h"
#include "profile/scratch_array.h"

namespace strata {
namespace {

// RFC 1951 §3.2.5: code of the shortest length or distance of a group, and the extra bits.
struct Group {
  uint16_t first;
  uint8_t extra_bits;
};
constexpr Group kLengths[] = {
    {3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
    {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
    {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}};
constexpr Group kDistances[] = {{1, 0},     {2, 0},     {3, 0},      {4, 0},      {5, 1},
                                {7, 1},     {9, 2},     {13, 2},     {17, 3},     {25, 3},
                                {33, 4},    {49, 4},    {65, 5},     {97, 5},     {129, 6},
                                {193, 6},   {257, 7},   {385, 7},    {513, 8},    {769, 8},
                                {1025, 9},  {1537, 9},  {2049, 10},  {3073, 10},  {4097, 11},
                                {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}};
constexpr size_t kMinMatch = 3, kMaxMatch = 258, kWindow = 32768;
constexpr unsigned kEndOfBlock = 256;

// The last group that begins at or below `value`.
template <size_t N>
constexpr unsigned GroupOf(const Group (&groups)[N], size_t value) {
  unsigned i = N - 1;
  while (groups[i].first > value) --i;
  return i;
}

struct CrcTable {
  uint32_t of_byte[256] = {};
  constexpr CrcTable() {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0xedb88320u : 0);
      of_byte[i] = c;
    }
  }
};
constexpr CrcTable kCrc;

constexpr uint32_t Reversed(uint32_t code, unsigned bits) {
  uint32_t reversed = 0;
  for (unsigned i = 0; i < bits; ++i) reversed |= (code >> i & 1) << (bits - 1 - i);
  return reversed;
}

// Bits into a buffer, lowest first, that empties into the descriptor.
class BitWriter {
 public:
  explicit BitWriter(int fd) : fd_(fd) {}

  void Bits(uint32_t value, unsigned n) {
    bits_ |= uint64_t{value} << held_;
    for (held_ += n; held_ >= 8; held_ -= 8, bits_ >>= 8) Byte(static_cast<uint8_t>(bits_));
  }
  // A Huffman code goes highest bit first (RFC 1951 §3.1.1).
  void Code(uint32_t code, unsigned n) { Bits(Reversed(code, n), n); }
  void ToByte() {
    if (held_ != 0) Bits(0, 8 - held_);
  }
  void Word(uint32_t value) { Bits(value & 0xffff, 16), Bits(value >> 16, 16); }
  bool Finish() {
    Flush();
    return ok_;
  }

 private:
  void Byte(uint8_t b) {
    if (used_ == sizeof(buffer_)) Flush();
    buffer_[used_++] = b;
  }
  void Flush() {
    ok_ = ok_ && WriteAll(fd_, buffer_, used_);
    used_ = 0;
  }

  int fd_;
  bool ok_ = true;
  uint64_t bits_ = 0;
  unsigned held_ = 0;
  size_t used_ = 0;
  uint8_t buffer_[4096];
};

// RFC 1951 §3.2.6: the fixed code.
void Symbol(BitWriter& out, unsigned symbol) {
  if (symbol < 144) {
    out.Code(0x30 + symbol, 8);
  } else if (symbol < 256) {
    out.Code(0x190 + symbol - 144, 9);
  } else if (symbol < 280) {
    out.Code(symbol - 256, 7);
  } else {
    out.Code(0xc0 + symbol - 280, 8);
  }
}

void Match(BitWriter& out, size_t length, size_t distance) {
  const unsigned l = GroupOf(kLengths, length);
  Symbol(out, 257 + l);
  out.Bits(static_cast<uint32_t>(length - kLengths[l].first), kLengths[l].extra_bits);
  const unsigned d = GroupOf(kDistances, distance);
  out.Code(d, 5);
  out.Bits(static_cast<uint32_t>(distance - kDistances[d].first), kDistances[d].extra_bits);
}

// The last kWays places of each hash of three bytes; 0 is none, so places count from 1.
class MatchFinder {
 public:
  bool Init(const uint8_t* data, size_t size) {
    data_ = data;
    size_ = size;
    return places_.Reserve(kWays << kHashBits);
  }

  // The longest match for what stands at `at`; 0 if there is none. Remembers the place.
  size_t Find(size_t at, size_t* distance) {
    if (size_ - at < kMinMatch) return 0;
    uint32_t* bucket = Bucket(at);
    const size_t limit = std::min(kMaxMatch, size_ - at);
    size_t best = 0;
    for (size_t way = 0; way < kWays && bucket[way] != 0; ++way) {
      const size_t place = bucket[way] - 1;
      if (at - place > kWindow) break;
      size_t n = 0;
      while (n < limit && data_[place + n] == data_[at + n]) ++n;
      if (n > best) best = n, *distance = at - place;
    }
    Push(bucket, at);
    return best >= kMinMatch ? best : 0;
  }

  void Remember(size_t at) {
    if (size_ - at >= kMinMatch) Push(Bucket(at), at);
  }

 private:
  static constexpr size_t kHashBits = 14, kWays = 4;

  uint32_t* Bucket(size_t at) {
    const uint32_t three = data_[at] | uint32_t{data_[at + 1]} << 8 | uint32_t{data_[at + 2]} << 16;
    return &places_[(three * 0x9e3779b1u >> (32 - kHashBits)) * kWays];
  }
  static void Push(uint32_t* bucket, size_t at) {
    memmove(bucket + 1, bucket, (kWays - 1) * sizeof(*bucket));
    bucket[0] = static_cast<uint32_t>(at + 1);
  }

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  ScratchArray<uint32_t> places_;
};

void Deflate(BitWriter& out, const uint8_t* data, size_t size, MatchFinder& finder) {
  out.Bits(1, 1);  // the last block
  out.Bits(1, 2);  // fixed codes
  for (size_t at = 0; at < size;) {
    size_t distance = 0;
    const size_t length = finder.Find(at, &distance);
    if (length == 0) {
      Symbol(out, data[at++]);
      continue;
    }
    Match(out, length, distance);
    for (size_t i = 1; i < length; ++i) finder.Remember(at + i);
    at += length;
  }
  Symbol(out, kEndOfBlock);
  out.ToByte();
}

}  // namespace

uint32_t Crc32(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint32_t crc = ~uint32_t{0};
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kCrc.of_byte[(crc ^ bytes[i]) & 0xff];
  return ~crc;
}

bool WriteGzip(int fd, const void* data, size_t size) {
  if (size >= UINT32_MAX) {  // MatchFinder's places are 32 bits wide
    errno = EFBIG;
    return false;
  }
  const auto* bytes = static_cast<const uint8_t*>(data);
  MatchFinder finder;
  if (!finder.Init(bytes, size)) {
    errno = ENOMEM;
    return false;
  }
  BitWriter out(fd);
  // RFC 1952 §2.3: magic, deflate, no flags; no time, so that bytes depend on the input alone.
  for (const uint8_t b : {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}) out.Bits(b, 8);
  Deflate(out, bytes, size, finder);
  out.Word(Crc32(bytes, size));
  out.Word(static_cast<uint32_t>(size));
  return out.Finish();
}

}  // namespace strata
