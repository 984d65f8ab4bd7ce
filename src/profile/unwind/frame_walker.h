// The walk itself: from the registers of a frame to its caller's, rule by rule. Sits in
// profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/unwind/elf_code.h"
#include "profile/unwind/frame_registers.h"
#include "profile/unwind/stack_reader.h"
#include "profile/unwind/unwind_index.h"
#include "profile/unwind/walk_step.h"

namespace strata {

enum class WalkEnd : uint8_t {
  kOutermost,    // of the thread or process
  kFull,         // no room for more
  kUnknownCode,  // code in no table
  kNoTable,      // code whose table was not made yet
  kNoRule,       // code without unwind information, or beyond it
  kUnreadable,   // the stack is not what the tables say
};

// Return addresses from `walk` outwards, without those in `self` as long as they come first, by the
// rules of an UnwindIndex or of AnyCode. Where it ends in code that these don't know, another
// walk can go on with others. `places`, if not null: where on the stack each lies, 0 for one that
// the kernel put elsewhere.
template <class Rules>
WalkEnd WalkFrames(const Rules& rules, WalkPosition& walk, CodeRange self, StackReader& stack,
                   uintptr_t* out, size_t max, uintptr_t* places = nullptr);

// The first return address, of a walk that begins at a call.
void FindFirst(WalkPosition& walk, CodeRange self, uintptr_t* out, uintptr_t* places = nullptr);

// The same as WalkFrames by frame pointers, for want of tables. A frame counts only if its return
// address follows a call instruction, its frame pointer leads outwards, and both can be read; so
// most code that uses that register for something else ends the walk.
size_t WalkFramePointers(FrameRegisters at, CodeRange self, StackReader& stack, uintptr_t* out,
                         size_t max);

}  // namespace strata
