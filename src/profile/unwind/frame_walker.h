// The walk itself: from the registers of a frame to its caller's, rule by rule. Sits in
// profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/unwind/elf_code.h"
#include "profile/unwind/stack_reader.h"
#include "profile/unwind/unwind_index.h"

namespace strata {

struct FrameRegisters {
  uintptr_t pc = 0;
  uintptr_t sp = 0;
  uintptr_t bp = 0;
};

// The registers here; to be inlined into the function that the walk begins with.
STRATA_ALWAYS_INLINE FrameRegisters CurrentRegisters() {
  FrameRegisters r;
  asm volatile(
      "lea 0(%%rip), %0\n\t"
      "mov %%rsp, %1\n\t"
      "mov %%rbp, %2"
      : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.bp));
  return r;
}

enum class WalkEnd : uint8_t {
  kOutermost,    // of the thread or process
  kFull,         // no room for more
  kUnknownCode,  // code in no table
  kNoRule,       // code without unwind information, or beyond it
  kUnreadable,   // the stack is not what the tables say
};

// How far a walk has come: the frame it stands in, and how many return addresses it has found.
struct WalkPosition {
  explicit WalkPosition(FrameRegisters here) : at(here), lookup(here.pc) {}

  FrameRegisters at;
  uintptr_t lookup;  // an address in the instruction that the frame stands at
  size_t count = 0;
  bool left_handler = false;  // a signal handler's frames are among those left
};

// Return addresses from `walk` outwards, without those in `self` as long as they come first, by the
// rules of an UnwindIndex or of LoadedCode. Where it ends in code that these don't know, another
// walk can go on with others. `places`, if not null: where on the stack each lies, 0 for one that
// the kernel put elsewhere.
template <class Rules>
WalkEnd WalkFrames(const Rules& rules, WalkPosition& walk, CodeRange self, StackReader& stack,
                   uintptr_t* out, size_t max, uintptr_t* places = nullptr);

// The same by frame pointers, for want of tables. A frame counts only if its return address follows
// a call instruction, its rbp leads outwards, and both can be read; so most code that uses rbp for
// something else ends the walk.
size_t WalkFramePointers(FrameRegisters at, CodeRange self, StackReader& stack, uintptr_t* out,
                         size_t max);

}  // namespace strata
