// DWARF's numbers for x86-64 (System V ABI, AMD64 supplement, 3.6.2). Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace strata::dwarf {

inline constexpr uint64_t kFp = 6;              // rbp
inline constexpr uint64_t kSp = 7;              // rsp
inline constexpr uint64_t kReturnAddress = 16;  // rip
// Where a function that says nothing of it has its return address: every CIE says.
inline constexpr bool kReturnsByRegister = false;
inline constexpr uint8_t kFpPlus = 0x76;  // the operation that pushes rbp + n

// rsp + 8, or + 16 behind the push: what linkers write for the entries of a PLT.
inline bool IsPlt(const uint8_t* bytes, uint64_t size) {
  constexpr uint8_t kExpression[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a,
                                     0x3b, 0x2a, 0x33, 0x24, 0x22};
  return size == sizeof(kExpression) && memcmp(bytes, kExpression, size) == 0;
}

}  // namespace strata::dwarf
