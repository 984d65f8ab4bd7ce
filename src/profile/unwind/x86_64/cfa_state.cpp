// What a state of call frame information comes to on x86-64. See eh_frame.h. Sits in
// profile/unwind.
#include "profile/unwind/dwarf_registers.h"
#include "profile/unwind/eh_frame.h"

namespace strata {

UnwindRule CfaState::Rule() const {
  if (return_address == Saved::kUndefined) return UnwindRule::Of(RuleKind::kEnd);
  if (return_address != Saved::kAtCfa || return_offset != -8 || !sp_is_cfa) return {};
  UnwindRule rule;
  switch (base) {
    case Base::kOther:
      return {};
    case Base::kPlt:
      return UnwindRule::Of(RuleKind::kPlt);
    case Base::kFpLoad:
      rule = UnwindRule::Cfa(RuleKind::kFromFpLoad, base_offset);
      break;
    case Base::kRegister:
      if (base_register != dwarf::kSp && base_register != dwarf::kFp) return {};
      rule = UnwindRule::Cfa(base_register == dwarf::kSp ? RuleKind::kFromSp : RuleKind::kFromFp,
                             base_offset);
      break;
  }
  if (rule.kind() == RuleKind::kNone) return {};
  switch (fp) {
    case Saved::kSame:
      return rule;
    case Saved::kAtCfa:
      return rule.WithFpAt(static_cast<int64_t>(~static_cast<uint64_t>(fp_offset) + 1));
    case Saved::kAtFp:
      return rule.WithFpAtFp();
    default:
      return rule.WithFpLost();
  }
}

}  // namespace strata
