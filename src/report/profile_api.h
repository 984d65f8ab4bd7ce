// Writing a profile of the process-wide instance as gzipped profile.proto: at once, or as the
// difference between two moments. The C API, the control socket, the signal and the exit hook all
// come here. Sits in report; the samples are in profile/sampler.h, the kinds in
// profile/sample_profiles.h, the format in profile/pprof_writer.h.
//
// Nothing here allocates through malloc. No lock is held while anything is written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/sample_profiles.h"

namespace strata {

// Since the start. 0, or what went wrong: EINVAL (no such kind), ENOTSUP (sampling is off and has
// taken no sample), ENOMEM, or what write(2) said.
int WriteProfile(const char* kind, int fd);

// What is known at the beginning of a window, in memory mapped for it. Null: errno says why.
// heap: what was allocated in the window and still lives; allocs and lifetime: what was allocated
// or freed in it; peak and fragmentation describe the moment of the end as they do without a
// window.
struct ProfileWindow;
ProfileWindow* BeginProfileWindow(const char* kind);
// Writes the difference and lets go of the window. Errors as for WriteProfile.
int EndProfileWindow(ProfileWindow* window, int fd);
// Lets go of it without writing anything.
void DropProfileWindow(ProfileWindow* window);

}  // namespace strata
