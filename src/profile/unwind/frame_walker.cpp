// Walking frames. See frame_walker.h.
#include "profile/unwind/frame_walker.h"

#include "profile/unwind/any_code.h"
#include "profile/unwind/leave_frame.h"

namespace strata {
namespace {

constexpr size_t kMaxSelfFrames = 32;

STRATA_ALWAYS_INLINE bool Contains(CodeRange range, uintptr_t pc) {
  return pc - range.begin < range.end - range.begin;
}

STRATA_ALWAYS_INLINE void Note(WalkPosition& walk, CodeRange self, uintptr_t* out,
                               uintptr_t* places) {
  if (walk.count == 0 && Contains(self, walk.lookup)) return;
  if (places != nullptr) places[walk.count] = PlaceOf(walk);
  out[walk.count++] = walk.at.pc;
}

}  // namespace

void FindFirst(WalkPosition& walk, CodeRange self, uintptr_t* out, uintptr_t* places) {
  walk.lookup = walk.at.pc - 1;
  Note(walk, self, out, places);
}

template <class Rules>
STRATA_READS_STACK WalkEnd WalkFrames(const Rules& rules, WalkPosition& walk, CodeRange self,
                                      StackReader& stack, uintptr_t* out, size_t max,
                                      uintptr_t* places) {
  for (size_t left = max + kMaxSelfFrames; walk.count < max && left != 0; --left) {
    FoundRule found = rules.Find(walk.lookup);
    const RuleKind kind = found.rule.kind();
    if (STRATA_UNLIKELY(kind == RuleKind::kEnd)) {
      stack.Confirm();
      return WalkEnd::kOutermost;
    }
    if (STRATA_UNLIKELY(kind == RuleKind::kNone)) {
      if (!IsSignalReturn(walk.at.pc)) {
        if (found.table_missing) return WalkEnd::kNoTable;
        return found.in_module ? WalkEnd::kNoRule : WalkEnd::kUnknownCode;
      }
      found.rule = UnwindRule::Of(RuleKind::kSignal);
    }
    stack.Confirm();
    if (STRATA_UNLIKELY(!Leave(found.rule, stack, walk))) return WalkEnd::kUnreadable;
    if (walk.at.pc == 0) return WalkEnd::kOutermost;
    Note(walk, self, out, places);
  }
  return WalkEnd::kFull;
}

template WalkEnd WalkFrames(const UnwindIndex&, WalkPosition&, CodeRange, StackReader&, uintptr_t*,
                            size_t, uintptr_t*);
template WalkEnd WalkFrames(const AnyCode&, WalkPosition&, CodeRange, StackReader&, uintptr_t*,
                            size_t, uintptr_t*);

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
