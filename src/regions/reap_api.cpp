// The calls of include/strata/reap.h. What they do is in reaps.cpp; the paths that a request takes
// a thousand times stand here in full. Sits at the top of regions.
#include <errno.h>
#include <string.h>

#include "regions/reaps.h"
#include "strata/reap.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {
namespace {

STRATA_NOINLINE void* NoMemory() {
  errno = ENOMEM;
  return nullptr;
}

STRATA_NOINLINE void* Invalid() {
  errno = EINVAL;
  return nullptr;
}

// A scope's reap is the scope's to end: the misuse is reported.
STRATA_ALWAYS_INLINE bool ExpectOwn(const strata_reap* reap) {
  if (!ExpectReap(reap)) return false;
  if (reap->scope == nullptr) return true;
  ReportMisuse("a scope's reap, which ends with the scope: ", reap);
  return false;
}

STRATA_NOINLINE void FreeChecked(strata_reap* reap, void* p) {
  if (p == nullptr || !ExpectReap(reap)) return;
  if (reap->shared) return FreeInReap(reap, p);
  if (ExpectBlock(reap, p)) reap->heap.deallocate(p);
}

// What the window of a live reap has no answer to.
STRATA_NOINLINE void* MallocSlow(strata_reap* reap, size_t size) {
  if (STRATA_LIKELY(!reap->shared)) {
    if (void* p = reap->heap.allocate(size)) return p;
  }
  return AllocateInReap(reap, size, ReapHeap::alignment);  // may ask at the cap
}

STRATA_NOINLINE void FreeSlow(strata_reap* reap, void* p) {
  if (STRATA_UNLIKELY(reap->shared || !FreeInOwn(reap, p))) FreeChecked(reap, p);
}

}  // namespace
}  // namespace strata

using strata::ExpectReap;

// The number goes up with any change of the window, which a handle begins with, or of the tags that
// the calls in line of strata/reap.h write and read.
const char strata_reap_layout_1 = 1;

STRATA_EXPORT strata_reap* strata_reap_create(strata_reap* parent) {
  return strata::CreateReap(parent, strata::UsedBy::kOneThread);
}
STRATA_EXPORT strata_reap* strata_reap_create_shared(strata_reap* parent) {
  return strata::CreateReap(parent, strata::UsedBy::kThreads);
}

// As the calls in line, but what is no reap is not written to, whatever its first words look like.
// The window is shut where the reap is shared.
STRATA_EXPORT void* strata_reap_malloc(strata_reap* reap, size_t size) {
  if (!ExpectReap(reap)) return nullptr;
  void* p;
  return STRATA_LIKELY(reap->heap.bump(size, &p)) ? p : strata::MallocSlow(reap, size);
}

STRATA_EXPORT void* strata_reap_calloc(strata_reap* reap, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return strata::NoMemory();
  void* p = strata_reap_malloc(reap, bytes);
  return p == nullptr ? nullptr : memset(p, 0, bytes);
}

STRATA_EXPORT void* strata_reap_memalign(strata_reap* reap, size_t alignment, size_t size) {
  if (!ExpectReap(reap)) return nullptr;
  if (!strata::layers::IsPowerOfTwo(alignment) || alignment > (size_t{1} << 30))
    return strata::Invalid();
  return strata::AllocateInReap(reap, size, alignment);
}

STRATA_EXPORT void* strata_reap_realloc(strata_reap* reap, void* p, size_t size) {
  if (p == nullptr) return strata_reap_malloc(reap, size);
  if (size == 0) {
    strata_reap_free(reap, p);
    return nullptr;
  }
  if (!ExpectReap(reap)) return nullptr;
  if (!strata::ExpectBlock(reap, p)) return strata::Invalid();
  void* resized = strata::ResizeInReap(reap, p, size, strata::Resizing::kMayMove);
  return resized != nullptr ? resized : strata::MoveInReap(reap, p, size);
}

STRATA_EXPORT void strata_reap_free(strata_reap* reap, void* p) {
  if (STRATA_UNLIKELY(reap == nullptr || !strata::IsLiveReap(reap)))
    return strata::FreeChecked(reap, p);
  if (STRATA_UNLIKELY(!reap->heap.step_back(p))) strata::FreeSlow(reap, p);
}

STRATA_EXPORT void strata_reap_reserve(strata_reap* reap, size_t bytes) {
  if (ExpectReap(reap)) strata::ReserveInReap(reap, bytes);
}

STRATA_EXPORT void strata_reap_clear(strata_reap* reap) {
  if (strata::ExpectOwn(reap)) strata::ClearReap(reap);
}
STRATA_EXPORT void strata_reap_destroy(strata_reap* reap) {
  if (reap != nullptr && strata::ExpectOwn(reap)) strata::DestroyReap(reap);
}

STRATA_EXPORT void strata_reap_keep(strata_reap* reap) {
  if (strata::ExpectOwn(reap)) strata::KeepReap(reap);
}

STRATA_EXPORT strata_reap* strata_reap_find(const void* p) {
  strata_reap* reap = strata::ReapAround(p);
  return reap != nullptr ? reap : strata::ReapOfBlock(const_cast<void*>(p));
}

STRATA_EXPORT size_t strata_reap_size(strata_reap* reap, const void* p) {
  if (p == nullptr || !ExpectReap(reap)) return 0;
  return strata::LiveSizeInReap(reap, const_cast<void*>(p));
}

STRATA_EXPORT int strata_reap_set_parent(strata_reap* reap, strata_reap* parent) {
  if (!strata::ExpectOwn(reap) || (parent != nullptr && !ExpectReap(parent))) return EINVAL;
  return strata::SetReapParent(reap, parent);
}

STRATA_EXPORT size_t strata_reap_bytes(strata_reap* reap) {
  return ExpectReap(reap) ? strata::UsedByReap(reap) : 0;
}
STRATA_EXPORT size_t strata_reap_held(strata_reap* reap) {
  return ExpectReap(reap) ? strata::HeldByReap(reap) : 0;
}

STRATA_EXPORT void strata_reap_set_cap(strata_reap* reap, size_t bytes,
                                       strata_reap_cap_function reached, void* context) {
  if (ExpectReap(reap)) strata::CapReap(reap, bytes, reached, context);
}
