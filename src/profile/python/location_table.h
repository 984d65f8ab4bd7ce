// The line of an instruction of a code object, by CPython's location table (3.11 and later;
// Objects/locations.md in its sources). Sits in profile/python.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::python {

// The line of the code unit `unit`, counting from the code's first line; 0: it has none, or the
// table is broken. `byte(i)` reads the table, which has `size` bytes.
template <class Byte>
int64_t LineAt(Byte&& byte, size_t size, uint64_t unit, int64_t first_line) {
  constexpr unsigned kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15;
  size_t i = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (unsigned shift = 0; i < size && shift < 63; shift += 6) {
      const uint8_t b = byte(i++);
      value |= static_cast<uint64_t>(b & 63) << shift;
      if ((b & 64) == 0) break;
    }
    return value;
  };
  int64_t line = first_line;
  for (uint64_t at = 0; i < size;) {
    const uint8_t begin = byte(i++);
    if ((begin & 0x80) == 0) return 0;  // each entry begins with this bit, and no other byte has it
    const unsigned code = begin >> 3 & 15;
    at += (begin & 7u) + 1;
    if (code == kNoColumns || code == kLong) {
      const uint64_t delta = varint();
      const auto size_of = static_cast<int64_t>(delta >> 1);
      line += (delta & 1) != 0 ? -size_of : size_of;
    } else if (code >= kOneLine0 && code <= kOneLine2) {
      line += code - kOneLine0;
    }
    if (unit < at) return code == kNone ? 0 : line;
    while (i < size && (byte(i) & 0x80) == 0) ++i;  // columns
  }
  return 0;
}

}  // namespace strata::python
