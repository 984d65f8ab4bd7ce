// The forms of operator new that carry a hint of use (strata/hot_cold.h). They go to the plain
// forms by name, so that a program's own operator new gets these calls as well. Sits at the top of
// malloc.
#include "strata/hot_cold.h"

#include "malloc/blocks.h"
#include "malloc/cxx_new.h"

#define STRATA_EXPORT __attribute__((visibility("default")))

namespace {

// Whether the name leads to our own. Hidden from the compiler, which holds two names for two
// functions.
template <class F>
bool IsOwn(F* by_name, F* own) {
  __asm__("" : "+r"(by_name));
  return by_name == own;
}

// Another operator new may keep something of its own behind what was asked for, even in a block of
// ours.
__sized_ptr_t NewSized(size_t size) {
  void* p = ::operator new(size);
  return {p, IsOwn<void*(size_t)>(&::operator new, &strata::strata_own_new) ? strata::UsableSize(p)
                                                                            : size};
}
__sized_ptr_t NewSized(size_t size, std::align_val_t align) {
  void* p = ::operator new(size, align);
  return {p,
          IsOwn<void*(size_t, std::align_val_t)>(&::operator new, &strata::strata_own_new_aligned)
              ? strata::UsableSize(p)
              : size};
}

}  // namespace

// clang-format off
STRATA_EXPORT void* operator new(size_t size, __hot_cold_t) { return ::operator new(size); }
STRATA_EXPORT void* operator new[](size_t size, __hot_cold_t) { return ::operator new[](size); }
STRATA_EXPORT void* operator new(size_t size, const std::nothrow_t& tag, __hot_cold_t) noexcept { return ::operator new(size, tag); }
STRATA_EXPORT void* operator new[](size_t size, const std::nothrow_t& tag, __hot_cold_t) noexcept { return ::operator new[](size, tag); }
STRATA_EXPORT void* operator new(size_t size, std::align_val_t align, __hot_cold_t) { return ::operator new(size, align); }
STRATA_EXPORT void* operator new[](size_t size, std::align_val_t align, __hot_cold_t) { return ::operator new[](size, align); }
STRATA_EXPORT void* operator new(size_t size, std::align_val_t align, const std::nothrow_t& tag, __hot_cold_t) noexcept { return ::operator new(size, align, tag); }
STRATA_EXPORT void* operator new[](size_t size, std::align_val_t align, const std::nothrow_t& tag, __hot_cold_t) noexcept { return ::operator new[](size, align, tag); }

extern "C" {
STRATA_EXPORT __sized_ptr_t __size_returning_new(size_t size) { return NewSized(size); }
STRATA_EXPORT __sized_ptr_t __size_returning_new_hot_cold(size_t size, __hot_cold_t) { return NewSized(size); }
STRATA_EXPORT __sized_ptr_t __size_returning_new_aligned(size_t size, std::align_val_t align) { return NewSized(size, align); }
STRATA_EXPORT __sized_ptr_t __size_returning_new_aligned_hot_cold(size_t size, std::align_val_t align, __hot_cold_t) { return NewSized(size, align); }
}
// clang-format on
