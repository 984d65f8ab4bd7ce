// The kinds of profiles and their names: the one list of them. The options, the control socket and
// the C API know a kind by its name. Sits in profile; what each shows is in sample_profiles.h.
#pragma once

#include <cstdint>

namespace strata {

enum class ProfileKind : uint8_t { kHeap, kAllocs, kPeak, kLifetime, kFragmentation };

// "heap", "allocs", "peak", "lifetime" or "fragmentation"; false for anything else.
bool FindProfileKind(const char* name, ProfileKind& out);
const char* NameOf(ProfileKind kind);

}  // namespace strata
