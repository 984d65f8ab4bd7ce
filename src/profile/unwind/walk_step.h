// Where a walk stands: the registers of a frame. Sits in profile/unwind.
#pragma once

#include <cstdint>

#include "profile/unwind/frame_registers.h"

namespace strata {

struct Step {
  FrameRegisters at;
  uintptr_t lookup = 0;  // an address in the instruction that the frame stands at
};

}  // namespace strata
