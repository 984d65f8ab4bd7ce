// The exported functions that have to do with the heap as a whole: what it is, and giving memory
// back. Sits at the top of malloc; those that tell what is in it are in report/stats_api.cpp.
#include <malloc.h>

#include <cstddef>
#include <cstdint>

#include "base/version.h"
#include "malloc/release_now.h"
#include "malloc/runtime.h"
#include "strata/strata.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

size_t ReleaseIfReady(size_t bytes) {
  return strata::EnsureStarted() == strata::RunState::kReady ? strata::ReleaseBytes(bytes) : 0;
}

}  // namespace

STRATA_EXPORT const char* strata_version(void) { return STRATA_VERSION; }
STRATA_EXPORT const char* strata_cache_mode(void) {
  strata::EnsureStarted();
  return strata::CacheModeName();
}

STRATA_EXPORT size_t strata_release(size_t bytes) { return ReleaseIfReady(bytes); }

// Returns 1 if memory went back, as glibc does. `pad` bytes at the top have no meaning here.
STRATA_EXPORT int malloc_trim(size_t) noexcept { return ReleaseIfReady(SIZE_MAX) != 0 ? 1 : 0; }

// Parameters of glibc's heap mean nothing here; like glibc for unknown ones, we accept and ignore
// them.
STRATA_EXPORT int mallopt(int, int) noexcept { return 1; }
