// One step of a walk: from a frame to its caller, as the rule of an architecture says;
// IsSignalReturn, Leave, PlaceOf, WithoutSignature and FollowsCall. Sits in profile/unwind.
#pragma once

#if defined(__aarch64__)
#include "profile/unwind/aarch64/leave_frame.h"
#else
#include "profile/unwind/x86_64/leave_frame.h"
#endif
