// What a state of call frame information comes to on aarch64. See eh_frame.h. Sits in
// profile/unwind.
#include "profile/unwind/dwarf_registers.h"
#include "profile/unwind/eh_frame.h"

namespace strata {

UnwindRule CfaState::Rule() const {
  if (return_address == Saved::kUndefined) return UnwindRule::Of(RuleKind::kEnd);
  if (base != Base::kRegister || !sp_is_cfa) return {};
  if (base_register != dwarf::kSp && base_register != dwarf::kFp) return {};
  UnwindRule rule = UnwindRule::Cfa(
      base_register == dwarf::kSp ? RuleKind::kFromSp : RuleKind::kFromFp, base_offset);
  if (rule.kind() == RuleKind::kNone) return {};
  if (return_address == Saved::kAtCfa) {
    rule = rule.WithReturnAt(static_cast<int64_t>(~static_cast<uint64_t>(return_offset) + 1));
    if (rule.kind() == RuleKind::kNone) return {};
  } else if (return_address != Saved::kSame) {
    return {};
  }
  if (fp == Saved::kSame) return rule;
  const bool beside = fp == Saved::kAtCfa && return_address == Saved::kAtCfa &&
                      static_cast<uint64_t>(fp_offset) + 8 == static_cast<uint64_t>(return_offset);
  return beside ? rule.WithFpBelowReturn() : rule.WithFpLost();
}

}  // namespace strata
