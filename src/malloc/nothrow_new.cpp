// The nothrow forms of operator new: null instead of an exception, also when the new-handler
// throws. This is the one file compiled with exceptions; the C++ run time's symbols are weak,
// because a C program that preloads the library has none (and then nothing can throw). clang names
// std::terminate too.
#include <cstddef>
#include <new>

#include "malloc/blocks.h"
#include "malloc/cxx_new.h"
#include "malloc/fast_path.h"

asm(".weak __gxx_personality_v0\n"
    ".weak _ZSt9terminatev\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n");

#define STRATA_EXPORT __attribute__((visibility("default")))

namespace {

void* NewSlowOrNull(size_t size, size_t align) noexcept {
  try {
    return strata::NewSlow(size, align);
  } catch (...) {
    return nullptr;
  }
}

void* NewOrNull(size_t size) noexcept {
  void* p = strata::Allocate(size);
  return STRATA_LIKELY(p != nullptr) ? p : NewSlowOrNull(size, 1);
}

void* NewAlignedOrNull(size_t size, std::align_val_t align) noexcept {
  void* p = strata::AllocateAligned(size, static_cast<size_t>(align));
  return STRATA_LIKELY(p != nullptr) ? p : NewSlowOrNull(size, static_cast<size_t>(align));
}

}  // namespace

// clang-format off
STRATA_EXPORT void* operator new(size_t size, const std::nothrow_t&) noexcept { return NewOrNull(size); }
STRATA_EXPORT void* operator new[](size_t size, const std::nothrow_t&) noexcept { return NewOrNull(size); }
STRATA_EXPORT void* operator new(size_t size, std::align_val_t align, const std::nothrow_t&) noexcept { return NewAlignedOrNull(size, align); }
STRATA_EXPORT void* operator new[](size_t size, std::align_val_t align, const std::nothrow_t&) noexcept { return NewAlignedOrNull(size, align); }
// clang-format on
