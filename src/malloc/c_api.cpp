// The C functions that Strata exports, with the edge behaviour of glibc and POSIX. All in one
// object, so that a static link takes all of them or none. Sits at the top of malloc.
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "malloc/bad_free.h"
#include "malloc/blocks.h"
#include "malloc/fast_path.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

using strata::Allocate;
using strata::AllocateAligned;
using strata::AllocateZeroed;
using strata::Free;

namespace {

void* FailWith(int error) {
  errno = error;
  return nullptr;
}

// glibc rounds an alignment up to a power of two; one too large to round is refused.
size_t RoundedAlign(size_t align) { return align <= 16 ? 16 : std::bit_ceil(align); }

void* AllocateRounded(size_t align, size_t size) {
  if (align > (SIZE_MAX >> 1) + 1) return FailWith(EINVAL);
  return AllocateAligned(size, RoundedAlign(align));
}

#ifndef NDEBUG
// Whether a block of `usable` bytes can be what malloc, calloc and realloc made for `size`.
bool MayHoldAfterRealloc(size_t usable, size_t size) {
  if (usable == 0) return true;  // null or no block of ours: Free reports it
  if (size > usable) return false;
  if (size >= usable / 2) return true;
  return usable <= strata::kMaxClassSize &&
         strata::InfoOf(strata::ClassOfSize(size)).size == usable;
}
#endif

}  // namespace

STRATA_EXPORT void* malloc(size_t size) noexcept { return Allocate(size); }
STRATA_EXPORT void free(void* p) noexcept { Free(p); }
STRATA_EXPORT void* calloc(size_t count, size_t size) noexcept {
  return AllocateZeroed(count, size);
}
STRATA_EXPORT void* realloc(void* p, size_t size) noexcept { return strata::Reallocate(p, size); }

STRATA_EXPORT void* memalign(size_t align, size_t size) noexcept {
  return AllocateRounded(align, size);
}
STRATA_EXPORT void* aligned_alloc(size_t align, size_t size) noexcept {
  return AllocateRounded(align, size);
}

STRATA_EXPORT int posix_memalign(void** out, size_t align, size_t size) noexcept {
  if (!strata::IsPowerOfTwo(align) || align % sizeof(void*) != 0) return EINVAL;
  const int saved = errno;
  void* p = AllocateAligned(size, align);
  errno = saved;
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}

STRATA_EXPORT void* valloc(size_t size) noexcept {
  return AllocateAligned(size, strata::kNativePageSize);
}

STRATA_EXPORT void* pvalloc(size_t size) noexcept {
  if (size > SIZE_MAX - strata::kNativePageSize) return FailWith(ENOMEM);
  const size_t rounded = strata::RoundUp(size, strata::kNativePageSize);
  return AllocateAligned(rounded == 0 ? strata::kNativePageSize : rounded, strata::kNativePageSize);
}

STRATA_EXPORT void cfree(void* p) noexcept { Free(p); }
// Unlike a sized delete's, the block may have come from a realloc that left it where it was, in a
// larger class than its size's: the class has to be looked up.
STRATA_EXPORT void free_sized(void* p, [[maybe_unused]] size_t size) noexcept {
#ifndef NDEBUG
  if (!MayHoldAfterRealloc(strata::UsableSize(p), size)) strata::DieOfWrongSize(p, size, 1);
#endif
  Free(p);
}
STRATA_EXPORT void free_aligned_sized(void* p, size_t align, size_t size) noexcept {
  strata::FreeSizedAligned(p, size, RoundedAlign(align));
}
STRATA_EXPORT size_t malloc_usable_size(void* p) noexcept { return strata::UsableSize(p); }

// The names by which some programs and old libraries reach libc's allocator.
STRATA_EXPORT void* __libc_malloc(size_t size) noexcept { return Allocate(size); }
STRATA_EXPORT void __libc_free(void* p) noexcept { Free(p); }
STRATA_EXPORT void* __libc_calloc(size_t count, size_t size) noexcept {
  return AllocateZeroed(count, size);
}
STRATA_EXPORT void* __libc_realloc(void* p, size_t size) noexcept {
  return strata::Reallocate(p, size);
}
STRATA_EXPORT void* __libc_memalign(size_t align, size_t size) noexcept {
  return AllocateRounded(align, size);
}
STRATA_EXPORT void* __libc_valloc(size_t size) noexcept { return valloc(size); }
STRATA_EXPORT void* __libc_pvalloc(size_t size) noexcept { return pvalloc(size); }
STRATA_EXPORT void __libc_cfree(void* p) noexcept { Free(p); }
STRATA_EXPORT int __posix_memalign(void** out, size_t align, size_t size) noexcept {
  return posix_memalign(out, align, size);
}

// The hooks of glibc before 2.34, which later ones keep for old binaries only.
namespace {
void* MallocHook(size_t size, const void*) { return Allocate(size); }
void FreeHook(void* p, const void*) { Free(p); }
void* ReallocHook(void* p, size_t size, const void*) { return strata::Reallocate(p, size); }
void* MemalignHook(size_t align, size_t size, const void*) { return AllocateRounded(align, size); }
}  // namespace
extern "C" {
__attribute__((visibility("default"))) void* (*volatile __malloc_hook)(size_t,
                                                                       const void*) = MallocHook;
__attribute__((visibility("default"))) void (*volatile __free_hook)(void*, const void*) = FreeHook;
__attribute__((visibility("default"))) void* (*volatile __realloc_hook)(void*, size_t,
                                                                        const void*) = ReallocHook;
__attribute__((visibility("default"))) void* (*volatile __memalign_hook)(
    size_t, size_t, const void*) = MemalignHook;
}
