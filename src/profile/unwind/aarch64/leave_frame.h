// Steps of a walk on aarch64. See profile/unwind/leave_frame.h. Sits in profile/unwind.
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "profile/unwind/stack_reader.h"
#include "profile/unwind/unwind_rule.h"
#include "profile/unwind/walk_step.h"

namespace strata {

// The kernel's frame: a siginfo of 128 bytes at sp, then the ucontext, whose registers begin at
// 176.
inline constexpr uintptr_t kSignalRegisters = 128 + 176 + 8;
inline constexpr uintptr_t kSignalFp = kSignalRegisters + 29 * 8;
inline constexpr uintptr_t kSignalLr = kSignalRegisters + 30 * 8;
inline constexpr uintptr_t kSignalSp = kSignalRegisters + 31 * 8;
inline constexpr uintptr_t kSignalPc = kSignalRegisters + 32 * 8;

// Return addresses may be signed, in the bits that addresses don't use (Arm's pointer
// authentication).
STRATA_ALWAYS_INLINE uintptr_t WithoutSignature(uintptr_t pc) {
  return pc & ((uintptr_t{1} << arch::kAddressBits) - 1);
}

// Whether two instructions can be read there.
inline bool CanReadCode(uintptr_t pc) {
  return pc % 4 == 0 && pc >= kNativePageSize && IsReadable(RoundDown(pc, 8)) &&
         IsReadable(RoundDown(pc + 7, 8));
}

// Whether code that no table covers is what a signal handler returns to: since Linux 5.8 the
// kernel's page says nothing of it, so unwinders look for its two instructions.
STRATA_READS_STACK inline bool IsSignalReturn(uintptr_t pc) {
  constexpr uint32_t kMoveNumber = 0xd2801168, kCall = 0xd4000001;  // mov x8, #139; svc #0
  if (!CanReadCode(pc)) return false;
  const auto* code = reinterpret_cast<const volatile uint32_t*>(pc);
  return code[0] == kMoveNumber && code[1] == kCall;
}

STRATA_READS_STACK inline bool LeaveSignal(StackReader& stack, WalkPosition& step) {
  const uintptr_t frame = step.at.sp;
  if (!stack.Load(frame + kSignalFp, &step.at.bp) || !stack.Load(frame + kSignalLr, &step.at.lr) ||
      !stack.Load(frame + kSignalPc, &step.at.pc) || !stack.Load(frame + kSignalSp, &step.at.sp)) {
    return false;
  }
  step.at.lr = WithoutSignature(step.at.lr);
  step.at.place = 0;
  step.left_handler = true;
  step.lookup = step.at.pc;  // the instruction that was interrupted, not one after a call
  return true;
}

// Goes from the frame to its caller; false if the stack can't be read as the rule says.
STRATA_ALWAYS_INLINE STRATA_READS_STACK bool Leave(UnwindRule rule, StackReader& stack,
                                                   WalkPosition& step) {
  FrameRegisters& at = step.at;
  if (STRATA_UNLIKELY(rule.kind() == RuleKind::kSignal)) return LeaveSignal(stack, step);
  const uintptr_t cfa = (rule.kind() == RuleKind::kFromSp ? at.sp : at.bp) + rule.cfa();
  if (rule.returns_by_register()) {
    if (at.lr == 0) return false;
    at.pc = at.lr;
    at.place = 0;
  } else {
    at.place = cfa - rule.return_below_cfa();
    uintptr_t pc;
    if (!stack.Load(at.place, &pc)) return false;
    if (rule.fp_below_return() && !stack.Load(at.place - 8, &at.bp)) return false;
    at.pc = WithoutSignature(pc);
  }
  if (rule.fp_lost()) at.bp = 0;
  at.lr = 0;
  at.sp = cfa;
  step.lookup = at.pc - 1;
  return true;
}

// Where the return address lay: 0 in a leaf, and in a frame that a signal interrupted.
STRATA_ALWAYS_INLINE uintptr_t PlaceOf(const WalkPosition& step) { return step.at.place; }

// Whether a call instruction ends at `pc`: BL, or BLR with or without authentication.
STRATA_READS_STACK inline bool FollowsCall(uintptr_t pc) {
  if (!CanReadCode(pc - 4)) return false;
  const uint32_t call = *reinterpret_cast<const volatile uint32_t*>(pc - 4);
  return (call & 0xfc000000) == 0x94000000 || (call & 0xfefff000) == 0xd63f0000;
}

}  // namespace strata
