// How far a walk has come. Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/unwind/frame_registers.h"

namespace strata {

// How far a walk has come: the frame it stands in, and how many return addresses it has found.
struct WalkPosition {
  explicit WalkPosition(FrameRegisters here) : at(here), lookup(here.pc) {}

  FrameRegisters at;
  uintptr_t lookup;  // an address in the instruction that the frame stands at
  size_t count = 0;
  bool left_handler = false;  // a signal handler's frames are among those left
};

// Where a walk begins: at an instruction, or where a call returns to that is under way.
struct WalkStart {
  FrameRegisters at;
  bool returns = false;
};

STRATA_ALWAYS_INLINE WalkStart StartHere() { return {CurrentRegisters()}; }
// At the call of the function that this is inlined into, and which must not return meanwhile: that
// spares the rules of the library's own frames, which no program has in memory otherwise.
STRATA_ALWAYS_INLINE WalkStart StartAtCall() { return {RegistersOfCall(), kKnowsCall}; }

}  // namespace strata
