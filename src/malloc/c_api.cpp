// The C functions that Strata exports. All in one object, so that a static link takes all of them
// or none. Sits at the top of malloc.
#include "malloc/bad_free.h"
#include "malloc/blocks.h"
#include "malloc/fast_path.h"
#include "malloc/region_calls.h"

namespace {

#ifndef NDEBUG
// Whether a block of `usable` bytes can be what malloc, calloc and realloc made for `size`.
bool MayHoldAfterRealloc(void* p, size_t size) {
  const size_t usable = strata::UsableSize(p);
  if (usable == 0) return true;  // null or no block of ours: Free reports it
  if (size > usable) return false;
  if (size >= usable / 2) return true;
  if (usable <= strata::kMaxClassSize && strata::InfoOf(strata::ClassOfSize(size)).size == usable) {
    return true;
  }
  return strata::ReapOfBlock(p) != nullptr;  // whose least block is larger
}
#endif

struct Front {
  STRATA_ALWAYS_INLINE static void* Allocate(size_t size) { return strata::Allocate(size); }
  STRATA_ALWAYS_INLINE static void* AllocateZeroed(size_t n, size_t size) {
    return strata::AllocateZeroed(n, size);
  }
  STRATA_ALWAYS_INLINE static void* AllocateAligned(size_t n, size_t align) {
    return strata::AllocateAligned(n, align);
  }
  STRATA_ALWAYS_INLINE static void* Reallocate(void* p, size_t size) {
    return strata::Reallocate(p, size);
  }
  STRATA_ALWAYS_INLINE static size_t UsableSize(void* p) { return strata::UsableSize(p); }
  STRATA_ALWAYS_INLINE static void Free(void* p) { strata::Free(p); }
  STRATA_ALWAYS_INLINE static void FreeSizedAligned(void* p, [[maybe_unused]] size_t size,
                                                    [[maybe_unused]] size_t align) {
#ifndef NDEBUG
    strata::CheckSizedFree(p, size, align);
#endif
    strata::FreeChecked(p);
  }
  // The block may lie in a larger class than its size's: the class has to be looked up.
  STRATA_ALWAYS_INLINE static void FreeResized(void* p, [[maybe_unused]] size_t size) {
#ifndef NDEBUG
    if (!MayHoldAfterRealloc(p, size)) strata::DieOfWrongSize(p, size, 1);
#endif
    strata::FreeChecked(p);
  }
};

}  // namespace

#include "heaps/preload/c_exports.inc"
