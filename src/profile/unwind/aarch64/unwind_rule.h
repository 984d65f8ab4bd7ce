// The unwind rule (profile/unwind/unwind_rule.h) for aarch64: functions that call others save x29
// and x30 side by side, a leaf neither. Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class RuleKind : uint8_t {
  kNone,    // no table covers the code, or its rule is beyond us: the walk ends
  kEnd,     // the outermost frame of a thread
  kFromSp,  // CFA = sp + n
  kFromFp,  // CFA = x29 + n
  kSignal,  // the kernel's signal frame lies at sp
};

// The CFA (canonical frame address) is sp before the call.
class UnwindRule {
 public:
  static constexpr unsigned kBits = 30;

  constexpr UnwindRule() = default;
  static constexpr UnwindRule FromBits(uint32_t bits) { return UnwindRule(bits); }
  static constexpr UnwindRule Of(RuleKind kind) { return UnwindRule(static_cast<uint32_t>(kind)); }

  // kNone unless `n` is a multiple of 16 that fits, as sp always is. The return address starts as
  // in x30, x29 as unchanged.
  static constexpr UnwindRule Cfa(RuleKind kind, int64_t n) {
    if (n < 0 || n >= kMaxCfa || n % 16 != 0) return Of(RuleKind::kNone);
    return UnwindRule(static_cast<uint32_t>(kind) | static_cast<uint32_t>(n / 16) << kCfaShift);
  }

  // The return address lies at CFA - n. Compilers save it near one end of a frame: gcc of a large
  // one at the lower end, clang at the upper. kNone if it lies elsewhere.
  constexpr UnwindRule WithReturnAt(int64_t n) const {
    const int64_t up = static_cast<int64_t>(cfa()) - n;
    if (n > 0 && n % 8 == 0 && n / 8 <= int64_t{kReturnMask})
      return UnwindRule(bits_ | static_cast<uint32_t>(n / 8) << kReturnShift);
    if (n > 0 && up >= 0 && up % 8 == 0 && up / 8 <= int64_t{kReturnMask})
      return UnwindRule(bits_ | kReturnFromBase | static_cast<uint32_t>(up / 8) << kReturnShift);
    return Of(RuleKind::kNone);
  }
  // The caller's x29 lies below the return address.
  constexpr UnwindRule WithFpBelowReturn() const { return UnwindRule(bits_ | kFpBelowReturn); }
  constexpr UnwindRule WithFpLost() const { return UnwindRule(bits_ | kFpLost); }

  constexpr uint32_t bits() const { return bits_; }
  constexpr RuleKind kind() const { return static_cast<RuleKind>(bits_ & 7); }
  constexpr uintptr_t cfa() const { return uintptr_t{(bits_ >> kCfaShift) & kCfaMask} * 16; }
  constexpr bool returns_by_register() const {
    return (bits_ & (kReturnFromBase | kReturnMask << kReturnShift)) == 0;
  }
  constexpr uintptr_t return_below_cfa() const {
    const uintptr_t n = uintptr_t{(bits_ >> kReturnShift) & kReturnMask} * 8;
    return (bits_ & kReturnFromBase) != 0 ? cfa() - n : n;
  }
  constexpr bool fp_below_return() const { return (bits_ & kFpBelowReturn) != 0; }
  constexpr bool fp_lost() const { return (bits_ & kFpLost) != 0; }
  constexpr bool operator==(const UnwindRule&) const = default;

 private:
  static constexpr unsigned kCfaShift = 3;
  static constexpr uint32_t kCfaMask = (1u << 14) - 1;
  static constexpr int64_t kMaxCfa = (int64_t{kCfaMask} + 1) * 16;  // 256 KiB
  static constexpr unsigned kReturnShift = 17;
  static constexpr uint32_t kReturnMask = (1u << 10) - 1;  // 8 KiB
  static constexpr uint32_t kReturnFromBase = 1u << 27;
  static constexpr uint32_t kFpBelowReturn = 1u << 28, kFpLost = 1u << 29;

  constexpr explicit UnwindRule(uint32_t bits) : bits_(bits) {}

  uint32_t bits_ = 0;
};

}  // namespace strata
