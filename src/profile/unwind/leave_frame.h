// One step of a walk: from a frame to its caller, as the rule of an architecture says. Sits in
// profile/unwind.
#pragma once

#include <cstdint>

#include "profile/unwind/frame_registers.h"

namespace strata {

struct Step {
  FrameRegisters at;
  uintptr_t lookup = 0;  // an address in the instruction that the frame stands at
};

}  // namespace strata

// IsSignalReturn, Leave, PlaceOf, WithoutSignature and FollowsCall.
#if defined(__aarch64__)
#include "profile/unwind/aarch64/leave_frame.h"
#else
#include "profile/unwind/x86_64/leave_frame.h"
#endif
