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

}  // namespace strata
