// How to step from one frame to its caller, in 30 bits: what is left of a DWARF row once only the
// return address and rbp matter. 30 bits, because the walk's cache keeps a rule and the rest of the
// address it is for in one word. Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class RuleKind : uint8_t {
  kNone,         // no table covers the code, or its rule is beyond us: the walk ends
  kEnd,          // the outermost frame of a thread
  kFromRsp,      // CFA = rsp + n
  kFromRbp,      // CFA = rbp + n
  kFromRbpLoad,  // CFA = the word at rbp + n: gcc, where it realigns the stack
  kPlt,          // CFA = rsp + 8, or + 16 once the entry has pushed its index
  kSignal,       // the kernel's signal frame lies at rsp
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
    const bool fits = kind == RuleKind::kFromRbpLoad ? n >= -kMaxCfa / 2 && n < kMaxCfa / 2
                                                     : n >= 8 && n < kMaxCfa;
    if (!fits || n % 8 != 0) return Of(RuleKind::kNone);
    return UnwindRule(static_cast<uint32_t>(kind) | (static_cast<uint32_t>(n / 8) & kCfaMask)
                                                        << kCfaShift);
  }

  // The caller's rbp lies at CFA - n, if that can be said; otherwise it is lost.
  constexpr UnwindRule WithRbpAt(int64_t n) const {
    const bool fits = n > 0 && n % 8 == 0 && n / 8 < kRbpAtRbp;
    return WithRbp(fits ? static_cast<uint32_t>(n / 8) : kRbpLost);
  }
  constexpr UnwindRule WithRbpLost() const { return WithRbp(kRbpLost); }
  // The caller's rbp lies where rbp points.
  constexpr UnwindRule WithRbpAtRbp() const { return WithRbp(kRbpAtRbp); }

  constexpr uint32_t bits() const { return bits_; }
  constexpr RuleKind kind() const { return static_cast<RuleKind>(bits_ & 7); }
  constexpr uintptr_t cfa() const { return ((bits_ >> kCfaShift) & kCfaMask) * 8; }
  constexpr intptr_t signed_cfa() const {
    const auto n = static_cast<intptr_t>(cfa());
    return n < kMaxCfa / 2 ? n : n - kMaxCfa;
  }
  constexpr bool rbp_same() const { return rbp() == 0; }
  constexpr bool rbp_lost() const { return rbp() == kRbpLost; }
  constexpr bool rbp_at_rbp() const { return rbp() == kRbpAtRbp; }
  constexpr uintptr_t rbp_below_cfa() const { return rbp() * 8; }
  constexpr bool operator==(const UnwindRule&) const = default;

 private:
  static constexpr unsigned kCfaShift = 3;
  static constexpr uint32_t kCfaMask = (1u << 15) - 1;
  static constexpr int64_t kMaxCfa = (int64_t{kCfaMask} + 1) * 8;  // 256 KiB
  static constexpr unsigned kRbpShift = 18;
  static constexpr uint32_t kRbpMask = (1u << 12) - 1;
  static constexpr uint32_t kRbpLost = kRbpMask;
  static constexpr uint32_t kRbpAtRbp = kRbpMask - 1;

  constexpr explicit UnwindRule(uint32_t bits) : bits_(bits) {}
  constexpr uintptr_t rbp() const { return (bits_ >> kRbpShift) & kRbpMask; }
  constexpr UnwindRule WithRbp(uint32_t n) const {
    return UnwindRule((bits_ & ~(kRbpMask << kRbpShift)) | n << kRbpShift);
  }

  uint32_t bits_ = 0;
};

struct FoundRule {
  UnwindRule rule;
  bool in_module = false;
};

}  // namespace strata
