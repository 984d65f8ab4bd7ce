// DWARF's numbers for aarch64 (DWARF for the Arm 64-bit Architecture, 4.1). Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::dwarf {

inline constexpr uint64_t kFp = 29;
inline constexpr uint64_t kSp = 31;
inline constexpr uint64_t kReturnAddress = 30;
// Where a function that says nothing of it has its return address.
inline constexpr bool kReturnsByRegister = true;
inline constexpr uint8_t kFpPlus = 0x8d;  // the operation that pushes x29 + n

inline bool IsPlt(const uint8_t*, uint64_t) { return false; }  // a PLT leaves the stack as it is

}  // namespace strata::dwarf
