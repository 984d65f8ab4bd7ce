// Walking frames. See frame_walker.h.
#include "profile/unwind/frame_walker.h"

#include "profile/unwind/loaded_code.h"

namespace strata {
namespace {

constexpr size_t kMaxSelfFrames = 32;

// The kernel's frame on x86-64: the stack pointer is at its ucontext, in which the registers lie.
constexpr uintptr_t kSignalRbp = 120;
constexpr uintptr_t kSignalRsp = 160;
constexpr uintptr_t kSignalRip = 168;

STRATA_ALWAYS_INLINE bool Contains(CodeRange range, uintptr_t pc) {
  return pc - range.begin < range.end - range.begin;
}

// An entry of a PLT pushes its index in the eleven bytes before this offset.
constexpr uintptr_t kPltEntrySize = 16;
constexpr uintptr_t kPltPushed = 11;

STRATA_READS_STACK bool LeaveSignal(StackReader& stack, WalkPosition& step) {
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
    case RuleKind::kFromRsp:
      cfa = at.sp + rule.cfa();
      break;
    case RuleKind::kFromRbp:
      cfa = at.bp + rule.cfa();
      break;
    case RuleKind::kFromRbpLoad:
      if (!stack.Load(at.bp + static_cast<uintptr_t>(rule.signed_cfa()), &cfa)) return false;
      break;
    case RuleKind::kPlt:
      cfa = at.sp + (step.lookup % kPltEntrySize >= kPltPushed ? 16 : 8);
      break;
    default:
      return LeaveSignal(stack, step);
  }
  if (!stack.Load(cfa - 8, &at.pc)) return false;
  if (!rule.rbp_same()) {
    if (rule.rbp_lost()) {
      at.bp = 0;
    } else if (!stack.Load(rule.rbp_at_rbp() ? at.bp : cfa - rule.rbp_below_cfa(), &at.bp)) {
      return false;
    }
  }
  at.sp = cfa;
  step.lookup = at.pc - 1;
  return true;
}

}  // namespace

template <class Rules>
STRATA_READS_STACK WalkEnd WalkFrames(const Rules& rules, WalkPosition& walk, CodeRange self,
                                      StackReader& stack, uintptr_t* out, size_t max,
                                      uintptr_t* places) {
  for (size_t left = max + kMaxSelfFrames; walk.count < max && left != 0; --left) {
    const FoundRule found = rules.Find(walk.lookup);
    const RuleKind kind = found.rule.kind();
    if (STRATA_UNLIKELY(kind == RuleKind::kEnd)) {
      stack.Confirm();
      return WalkEnd::kOutermost;
    }
    if (STRATA_UNLIKELY(kind == RuleKind::kNone))
      return found.in_module ? WalkEnd::kNoRule : WalkEnd::kUnknownCode;
    stack.Confirm();
    if (STRATA_UNLIKELY(!Leave(found.rule, stack, walk))) return WalkEnd::kUnreadable;
    if (walk.at.pc == 0) return WalkEnd::kOutermost;
    if (walk.count != 0 || !Contains(self, walk.lookup)) {
      // A frame that a signal interrupted has no return address of its own.
      if (places != nullptr) places[walk.count] = walk.lookup == walk.at.pc ? 0 : walk.at.sp - 8;
      out[walk.count++] = walk.at.pc;
    }
  }
  return WalkEnd::kFull;
}

template WalkEnd WalkFrames(const UnwindIndex&, WalkPosition&, CodeRange, StackReader&, uintptr_t*,
                            size_t, uintptr_t*);
template WalkEnd WalkFrames(const LoadedCode&, WalkPosition&, CodeRange, StackReader&, uintptr_t*,
                            size_t, uintptr_t*);

namespace {

// Whether a call instruction ends at `pc`: E8 with 4 bytes, or FF /2 of 2 to 7 bytes. What a wrong
// word of the stack points to is no object of the program's, which is all that sanitizers know.
STRATA_READS_STACK bool FollowsCall(uintptr_t pc) {
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

}  // namespace

STRATA_READS_STACK size_t WalkFramePointers(FrameRegisters at, CodeRange self, StackReader& stack,
                                            uintptr_t* out, size_t max) {
  constexpr uintptr_t kLargestFrame = size_t{1} << 20;
  size_t count = 0;
  for (size_t left = max + kMaxSelfFrames; count < max && left != 0; --left) {
    uintptr_t bp;
    uintptr_t pc;
    if (at.bp < at.sp || at.bp - at.sp > kLargestFrame) break;
    if (!stack.Load(at.bp, &bp) || !stack.Load(at.bp + 8, &pc) || !FollowsCall(pc)) break;
    at.sp = at.bp + 16;
    at.bp = bp;
    if (count != 0 || !Contains(self, pc)) out[count++] = pc;
  }
  return count;
}

}  // namespace strata
