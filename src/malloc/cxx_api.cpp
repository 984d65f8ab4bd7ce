// Strata's operators new and delete, and its own under names that no program replaces. Sits at the
// top of malloc.
#include "malloc/cxx_new.h"

#include "malloc/blocks.h"
#include "malloc/fast_path.h"

namespace {

struct Front {
  STRATA_ALWAYS_INLINE static void* Allocate(size_t size) { return strata::Allocate(size); }
  STRATA_ALWAYS_INLINE static void* AllocateAligned(size_t n, size_t align) {
    return strata::AllocateAligned(n, align);
  }
  STRATA_ALWAYS_INLINE static void Free(void* p) { strata::Free(p); }
  STRATA_ALWAYS_INLINE static void FreeSized(void* p, size_t size) { strata::FreeSized(p, size); }
  STRATA_ALWAYS_INLINE static void FreeSizedAligned(void* p, size_t size, size_t align) {
    strata::FreeSizedAligned(p, size, align);
  }
};

}  // namespace

#include "heaps/preload/cxx_exports.inc"

extern "C" {
void* strata::strata_own_new(size_t) __attribute__((alias("_Znwm")));
void* strata::strata_own_new_array(size_t) __attribute__((alias("_Znam")));
void* strata::strata_own_new_nothrow(size_t, const std::nothrow_t&) noexcept
    __attribute__((alias("_ZnwmRKSt9nothrow_t")));
void* strata::strata_own_new_array_nothrow(size_t, const std::nothrow_t&) noexcept
    __attribute__((alias("_ZnamRKSt9nothrow_t")));
void* strata::strata_own_new_aligned(size_t, std::align_val_t)
    __attribute__((alias("_ZnwmSt11align_val_t")));
}
