// The unwind rule (profile/unwind/unwind_rule.h) for x86-64: the return address lies below the CFA,
// rbp anywhere. Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class RuleKind : uint8_t {
  kNone,        // no table covers the code, or its rule is beyond us: the walk ends
  kEnd,         // the outermost frame of a thread
  kFromSp,      // CFA = rsp + n
  kFromFp,      // CFA = rbp + n
  kFromFpLoad,  // CFA = the word at rbp + n: gcc, where it realigns the stack
  kPlt,         // CFA = rsp + 8, or + 16 once the entry has pushed its index
  kSignal,      // the kernel's signal frame lies at rsp
};

// The CFA (canonical frame address) is rsp before the call; the return address lies at CFA - 8.
class UnwindRule {
 public:
  static constexpr unsigned kBits = 30;

  constexpr UnwindRule() = default;
  static constexpr UnwindRule FromBits(uint32_t bits) { return UnwindRule(bits); }
  static constexpr UnwindRule Of(RuleKind kind) { return UnwindRule(static_cast<uint32_t>(kind)); }

  // kNone unless `n` is a multiple of 8 that fits. The callee's rbp starts as unchanged.
  static constexpr UnwindRule Cfa(RuleKind kind, int64_t n) {
    const bool fits = kind == RuleKind::kFromFpLoad ? n >= -kMaxCfa / 2 && n < kMaxCfa / 2
                                                    : n >= 8 && n < kMaxCfa;
    if (!fits || n % 8 != 0) return Of(RuleKind::kNone);
    return UnwindRule(static_cast<uint32_t>(kind) | (static_cast<uint32_t>(n / 8) & kCfaMask)
                                                        << kCfaShift);
  }

  // The caller's rbp lies at CFA - n, if that can be said; otherwise it is lost.
  constexpr UnwindRule WithFpAt(int64_t n) const {
    const bool fits = n > 0 && n % 8 == 0 && n / 8 < kFpAtFp;
    return WithFp(fits ? static_cast<uint32_t>(n / 8) : kFpLost);
  }
  constexpr UnwindRule WithFpLost() const { return WithFp(kFpLost); }
  // The caller's rbp lies where rbp points.
  constexpr UnwindRule WithFpAtFp() const { return WithFp(kFpAtFp); }

  constexpr uint32_t bits() const { return bits_; }
  constexpr RuleKind kind() const { return static_cast<RuleKind>(bits_ & 7); }
  constexpr uintptr_t cfa() const { return ((bits_ >> kCfaShift) & kCfaMask) * 8; }
  constexpr intptr_t signed_cfa() const {
    const auto n = static_cast<intptr_t>(cfa());
    return n < kMaxCfa / 2 ? n : n - kMaxCfa;
  }
  constexpr bool fp_same() const { return fp() == 0; }
  constexpr bool fp_lost() const { return fp() == kFpLost; }
  constexpr bool fp_at_fp() const { return fp() == kFpAtFp; }
  constexpr uintptr_t fp_below_cfa() const { return fp() * 8; }
  constexpr bool operator==(const UnwindRule&) const = default;

 private:
  static constexpr unsigned kCfaShift = 3;
  static constexpr uint32_t kCfaMask = (1u << 15) - 1;
  static constexpr int64_t kMaxCfa = (int64_t{kCfaMask} + 1) * 8;  // 256 KiB
  static constexpr unsigned kFpShift = 18;
  static constexpr uint32_t kFpMask = (1u << 12) - 1;
  static constexpr uint32_t kFpLost = kFpMask;
  static constexpr uint32_t kFpAtFp = kFpMask - 1;

  constexpr explicit UnwindRule(uint32_t bits) : bits_(bits) {}
  constexpr uintptr_t fp() const { return (bits_ >> kFpShift) & kFpMask; }
  constexpr UnwindRule WithFp(uint32_t n) const {
    return UnwindRule((bits_ & ~(kFpMask << kFpShift)) | n << kFpShift);
  }

  uint32_t bits_ = 0;
};

}  // namespace strata
