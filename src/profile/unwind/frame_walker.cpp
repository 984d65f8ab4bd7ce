// Walking frames. See frame_walker.h.
#include "profile/unwind/frame_walker.h"

#include "profile/unwind/leave_frame.h"

namespace strata {
namespace {

constexpr size_t kMaxSelfFrames = 32;

STRATA_ALWAYS_INLINE bool Contains(CodeRange range, uintptr_t pc) {
  return pc - range.begin < range.end - range.begin;
}

}  // namespace

STRATA_READS_STACK WalkResult WalkFrames(const UnwindIndex& index, FrameRegisters at,
                                         CodeRange self, StackReader& stack, uintptr_t* out,
                                         size_t max, uintptr_t* places) {
  WalkResult result;
  Step step{at, at.pc};
  for (size_t left = max + kMaxSelfFrames; result.count < max && left != 0; --left) {
    FoundRule found = index.Find(step.lookup);
    const RuleKind kind = found.rule.kind();
    if (STRATA_UNLIKELY(kind == RuleKind::kNone) && IsSignalReturn(step.at.pc)) {
      found.rule = UnwindRule::Of(RuleKind::kSignal);
    } else if (STRATA_UNLIKELY(kind == RuleKind::kNone || kind == RuleKind::kEnd)) {
      result.end = kind == RuleKind::kEnd
                       ? WalkEnd::kOutermost
                       : (found.in_module ? WalkEnd::kNoRule : WalkEnd::kUnknownCode);
      if (kind == RuleKind::kEnd) stack.Confirm();
      return result;
    }
    stack.Confirm();
    if (STRATA_UNLIKELY(!Leave(found.rule, stack, step))) {
      result.end = WalkEnd::kUnreadable;
      return result;
    }
    if (step.at.pc == 0) {
      result.end = WalkEnd::kOutermost;
      return result;
    }
    if (result.count != 0 || !Contains(self, step.lookup)) {
      if (places != nullptr) places[result.count] = PlaceOf(step);
      out[result.count++] = step.at.pc;
    }
  }
  result.end = WalkEnd::kFull;
  return result;
}

STRATA_READS_STACK size_t WalkFramePointers(FrameRegisters at, CodeRange self, StackReader& stack,
                                            uintptr_t* out, size_t max) {
  constexpr uintptr_t kLargestFrame = size_t{1} << 20;
  size_t count = 0;
  for (size_t left = max + kMaxSelfFrames; count < max && left != 0; --left) {
    uintptr_t bp;
    uintptr_t pc;
    if (at.bp < at.sp || at.bp - at.sp > kLargestFrame) break;
    if (!stack.Load(at.bp, &bp) || !stack.Load(at.bp + 8, &pc) ||
        !FollowsCall(pc = WithoutSignature(pc)))
      break;
    at.sp = at.bp + 16;
    at.bp = bp;
    if (count != 0 || !Contains(self, pc)) out[count++] = pc;
  }
  return count;
}

}  // namespace strata
