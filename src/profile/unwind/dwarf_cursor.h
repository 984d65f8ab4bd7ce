// Reads DWARF's numbers off bytes that nobody vouches for. Never looks past the end: from the first
// read that would on, everything reads as zero and ok() is false. Sits in profile/unwind.
#pragma once

#include <string.h>

#include <cstddef>
#include <cstdint>

namespace strata {

// Pointer encodings (DW_EH_PE_*).
inline constexpr uint8_t kPointerOmitted = 0xff;
inline constexpr uint8_t kPointerFormat = 0x0f;
inline constexpr uint8_t kPointerRelation = 0x70;
inline constexpr uint8_t kPointerIndirect = 0x80;
inline constexpr uint8_t kPointerPcRelative = 0x10;
inline constexpr uint8_t kPointerDataRelative = 0x30;

class DwarfCursor {
 public:
  // `address`: where the first byte lies in the process, for pointers relative to themselves.
  DwarfCursor(const uint8_t* begin, size_t size, uintptr_t address)
      : begin_(begin), at_(begin), end_(begin + size), address_(address) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const uint8_t* at() const { return at_; }
  uintptr_t address() const { return address_ + static_cast<size_t>(at_ - begin_); }

  template <class T>
  T Fixed() {
    T value = 0;
    if (const uint8_t* bytes = Skip(sizeof(T))) memcpy(&value, bytes, sizeof(T));
    return value;
  }
  uint8_t Byte() { return Fixed<uint8_t>(); }

  // The bytes that were passed over; null if there are not so many.
  const uint8_t* Skip(uint64_t n) {
    if (n > left()) {
      Fail();
      return nullptr;
    }
    const uint8_t* bytes = at_;
    at_ += n;
    return bytes;
  }

  // Bits that do not fit are dropped, as others do.
  uint64_t Uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = Byte();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  int64_t Sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const uint8_t byte = Byte();
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }

  // A cursor over the next n bytes, which this one passes over.
  DwarfCursor Part(uint64_t n) {
    const uintptr_t address = this->address();
    const uint8_t* bytes = Skip(n);
    DwarfCursor part(bytes != nullptr ? bytes : at_, bytes != nullptr ? n : 0, address);
    part.ok_ = ok_;
    return part;
  }

  // `data`: what data-relative pointers are relative to; 0 where there can be none. A pointer that
  // lies elsewhere (indirect) fails: only personality routines are encoded so, which are skipped.
  uintptr_t Pointer(uint8_t encoding, uintptr_t data) {
    if ((encoding & kPointerIndirect) != 0) Fail();
    const uintptr_t here = address();
    const uint64_t value = PointerValue(encoding);
    switch (encoding & kPointerRelation) {
      case 0:
        return value;
      case kPointerPcRelative:
        return here + value;
      case kPointerDataRelative:
        if (data == 0) Fail();
        return data + value;
      default:
        Fail();
        return 0;
    }
  }
  void SkipPointer(uint8_t encoding) {
    if (encoding != kPointerOmitted) PointerValue(encoding);
  }

 private:
  void Fail() {
    ok_ = false;
    at_ = end_;
  }

  uint64_t PointerValue(uint8_t encoding) {
    switch (encoding & kPointerFormat) {
      case 0x00:
      case 0x04:
      case 0x0c:
        return Fixed<uint64_t>();
      case 0x01:
        return Uleb();
      case 0x02:
        return Fixed<uint16_t>();
      case 0x03:
        return Fixed<uint32_t>();
      case 0x09:
        return static_cast<uint64_t>(Sleb());
      case 0x0a:
        return static_cast<uint64_t>(static_cast<int64_t>(Fixed<int16_t>()));
      case 0x0b:
        return static_cast<uint64_t>(static_cast<int64_t>(Fixed<int32_t>()));
      default:
        Fail();
        return 0;
    }
  }

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  uintptr_t address_;
  bool ok_ = true;
};

}  // namespace strata
