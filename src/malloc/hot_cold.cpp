// The forms of operator new that carry a hint of use (strata/hot_cold.h). Blocks are
// asked for with it; those of an alignment go to the plain forms by name, and all do where the
// program has an operator new of its own, which gets these calls as well. Sits at the top of
// malloc.
#include "strata/hot_cold.h"

#include "base/placement.h"
#include "malloc/blocks.h"
#include "malloc/cxx_new.h"

#define STRATA_EXPORT __attribute__((visibility("default")))

namespace {

using strata::Hotness;
using strata::Placement;

// Whether the name leads to our own. Hidden from the compiler, which holds two names for two
// functions.
template <class F>
bool IsOwn(F* by_name, F* own) {
  __asm__("" : "+r"(by_name));
  return by_name == own;
}

// What LLVM's -memprof-new-hot-hint is unless set; it gives 128 to what is neither.
constexpr uint8_t kLeastHot = 254, kLeastMiddle = 128;

Placement PlacementOf(__hot_cold_t hint) {
  const auto raw = static_cast<uint8_t>(hint);
  return {.hotness = raw < kLeastMiddle ? Hotness::kCold
                     : raw < kLeastHot  ? Hotness::kMiddle
                                        : Hotness::kHot};
}

// Null: ask the plain form.
template <class F>
void* Placed(size_t size, __hot_cold_t hint, F* plain, F* own) {
  if (!IsOwn(plain, own)) return nullptr;
  return strata::AllocatePlaced(size, PlacementOf(hint));
}

void* HintedNew(size_t size, __hot_cold_t hint) {
  void* p = Placed<void*(size_t)>(size, hint, &::operator new, &strata::strata_own_new);
  return p != nullptr ? p : ::operator new(size);
}
void* HintedNewArray(size_t size, __hot_cold_t hint) {
  void* p = Placed<void*(size_t)>(size, hint, &::operator new[], &strata::strata_own_new_array);
  return p != nullptr ? p : ::operator new[](size);
}
void* HintedNew(size_t size, const std::nothrow_t& tag, __hot_cold_t hint) noexcept {
  void* p = Placed<void*(size_t, const std::nothrow_t&)>(size, hint, &::operator new,
                                                         &strata::strata_own_new_nothrow);
  return p != nullptr ? p : ::operator new(size, tag);
}
void* HintedNewArray(size_t size, const std::nothrow_t& tag, __hot_cold_t hint) noexcept {
  void* p = Placed<void*(size_t, const std::nothrow_t&)>(size, hint, &::operator new[],
                                                         &strata::strata_own_new_array_nothrow);
  return p != nullptr ? p : ::operator new[](size, tag);
}

// Another operator new may keep something of its own behind what was asked for, even in a block of
// ours.
__sized_ptr_t SizedFrom(void* p, size_t size) {
  return {p, IsOwn<void*(size_t)>(&::operator new, &strata::strata_own_new) ? strata::UsableSize(p)
                                                                            : size};
}
__sized_ptr_t NewAlignedSized(size_t size, std::align_val_t align) {
  void* p = ::operator new(size, align);
  return {p,
          IsOwn<void*(size_t, std::align_val_t)>(&::operator new, &strata::strata_own_new_aligned)
              ? strata::UsableSize(p)
              : size};
}

}  // namespace

// clang-format off
STRATA_EXPORT void* operator new(size_t size, __hot_cold_t hint) { return HintedNew(size, hint); }
STRATA_EXPORT void* operator new[](size_t size, __hot_cold_t hint) { return HintedNewArray(size, hint); }
STRATA_EXPORT void* operator new(size_t size, const std::nothrow_t& tag, __hot_cold_t hint) noexcept { return HintedNew(size, tag, hint); }
STRATA_EXPORT void* operator new[](size_t size, const std::nothrow_t& tag, __hot_cold_t hint) noexcept { return HintedNewArray(size, tag, hint); }
STRATA_EXPORT void* operator new(size_t size, std::align_val_t align, __hot_cold_t) { return ::operator new(size, align); }
STRATA_EXPORT void* operator new[](size_t size, std::align_val_t align, __hot_cold_t) { return ::operator new[](size, align); }
STRATA_EXPORT void* operator new(size_t size, std::align_val_t align, const std::nothrow_t& tag, __hot_cold_t) noexcept { return ::operator new(size, align, tag); }
STRATA_EXPORT void* operator new[](size_t size, std::align_val_t align, const std::nothrow_t& tag, __hot_cold_t) noexcept { return ::operator new[](size, align, tag); }

extern "C" {
STRATA_EXPORT __sized_ptr_t __size_returning_new(size_t size) { return SizedFrom(::operator new(size), size); }
STRATA_EXPORT __sized_ptr_t __size_returning_new_hot_cold(size_t size, __hot_cold_t hint) { return SizedFrom(HintedNew(size, hint), size); }
STRATA_EXPORT __sized_ptr_t __size_returning_new_aligned(size_t size, std::align_val_t align) { return NewAlignedSized(size, align); }
STRATA_EXPORT __sized_ptr_t __size_returning_new_aligned_hot_cold(size_t size, std::align_val_t align, __hot_cold_t) { return NewAlignedSized(size, align); }
}
// clang-format on
