// The registers of a frame, as a walk knows them: pc, sp, bp (the frame pointer), and what else the
// architecture needs; and where the walk begins. Sits in profile/unwind.
#pragma once

#if defined(__aarch64__)
#include "profile/unwind/aarch64/frame_registers.h"
#else
#include "profile/unwind/x86_64/frame_registers.h"
#endif
