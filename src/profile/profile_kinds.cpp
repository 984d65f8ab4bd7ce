// The names of the kinds. See profile_kinds.h.
#include "profile/profile_kinds.h"

#include <string.h>

#include <cstddef>

namespace strata {
namespace {

constexpr const char* kNames[] = {"heap", "allocs", "peak", "lifetime", "fragmentation"};

}  // namespace

bool FindProfileKind(const char* name, ProfileKind& out) {
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    if (name != nullptr && strcmp(name, kNames[i]) == 0) {
      out = static_cast<ProfileKind>(i);
      return true;
    }
  }
  return false;
}

const char* NameOf(ProfileKind kind) { return kNames[static_cast<size_t>(kind)]; }

}  // namespace strata
