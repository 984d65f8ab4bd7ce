// Steps of a walk on x86-64. See profile/unwind/leave_frame.h. Sits in profile/unwind.
#pragma once

#include <cstdint>

#include "profile/unwind/stack_reader.h"
#include "profile/unwind/unwind_rule.h"
#include "profile/unwind/walk_step.h"

namespace strata {

// The kernel's frame on x86-64: the stack pointer is at its ucontext, in which the registers lie.
inline constexpr uintptr_t kSignalRbp = 120;
inline constexpr uintptr_t kSignalRsp = 160;
inline constexpr uintptr_t kSignalRip = 168;

// An entry of a PLT pushes its index in the eleven bytes before this offset.
inline constexpr uintptr_t kPltEntrySize = 16;
inline constexpr uintptr_t kPltPushed = 11;

// Whether code that no table covers is what a signal handler returns to: tables do.
inline bool IsSignalReturn(uintptr_t) { return false; }

STRATA_READS_STACK inline bool LeaveSignal(StackReader& stack, WalkPosition& step) {
  const uintptr_t frame = step.at.sp;
  if (!stack.Load(frame + kSignalRbp, &step.at.bp) ||
      !stack.Load(frame + kSignalRip, &step.at.pc) ||
      !stack.Load(frame + kSignalRsp, &step.at.sp)) {
    return false;
  }
  step.left_handler = true;
  step.lookup = step.at.pc;  // the instruction that was interrupted, not one after a call
  return true;
}

// Goes from the frame to its caller; false if the stack can't be read as the rule says.
STRATA_ALWAYS_INLINE STRATA_READS_STACK bool Leave(UnwindRule rule, StackReader& stack,
                                                   WalkPosition& step) {
  FrameRegisters& at = step.at;
  uintptr_t cfa = 0;
  switch (rule.kind()) {
    case RuleKind::kFromSp:
      cfa = at.sp + rule.cfa();
      break;
    case RuleKind::kFromFp:
      cfa = at.bp + rule.cfa();
      break;
    case RuleKind::kFromFpLoad:
      if (!stack.Load(at.bp + static_cast<uintptr_t>(rule.signed_cfa()), &cfa)) return false;
      break;
    case RuleKind::kPlt:
      cfa = at.sp + (step.lookup % kPltEntrySize >= kPltPushed ? 16 : 8);
      break;
    default:
      return LeaveSignal(stack, step);
  }
  if (!stack.Load(cfa - 8, &at.pc)) return false;
  if (!rule.fp_same()) {
    if (rule.fp_lost()) {
      at.bp = 0;
    } else if (!stack.Load(rule.fp_at_fp() ? at.bp : cfa - rule.fp_below_cfa(), &at.bp)) {
      return false;
    }
  }
  at.sp = cfa;
  step.lookup = at.pc - 1;
  return true;
}

inline uintptr_t WithoutSignature(uintptr_t pc) { return pc; }

// Where the return address lay: a frame that a signal interrupted has none of its own.
STRATA_ALWAYS_INLINE uintptr_t PlaceOf(const WalkPosition& step) {
  return step.lookup == step.at.pc ? 0 : step.at.sp - 8;
}

// Whether a call instruction ends at `pc`: E8 with 4 bytes, or FF /2 of 2 to 7 bytes. What a wrong
// word of the stack points to is no object of the program's, which is all that sanitizers know.
STRATA_READS_STACK inline bool FollowsCall(uintptr_t pc) {
  constexpr size_t kLongest = 7;
  if (pc < kNativePageSize || !IsReadable(RoundDown(pc - kLongest, 8)) ||
      !IsReadable(RoundDown(pc - 1, 8))) {
    return false;
  }
  const auto* end = reinterpret_cast<const volatile uint8_t*>(pc);
  if (end[-5] == 0xe8) return true;
  for (int length = 2; length <= static_cast<int>(kLongest); ++length) {
    if (end[-length] == 0xff && (end[1 - length] & 0x38) == 0x10) return true;
  }
  return false;
}

}  // namespace strata
