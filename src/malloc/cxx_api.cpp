// The twenty operators new and delete. A failed new calls the new-handler until it gives up, then
// throws through libstdc++'s own function: this library links to no C++ run time, so those are weak
// references. Sits at the top of malloc. The nothrow forms are in nothrow_new.cpp.
#include <dlfcn.h>
#include <errno.h>

#include <cstddef>
#include <new>

#include "base/message.h"
#include "base/units.h"
#include "malloc/blocks.h"
#include "malloc/cxx_new.h"
#include "malloc/fast_path.h"

#define STRATA_EXPORT __attribute__((visibility("default")))

// libstdc++ and libc++ both export these under these names.
extern "C" {
std::new_handler _ZSt15get_new_handlerv() noexcept __attribute__((weak));
[[noreturn]] void _ZSt17__throw_bad_allocv() __attribute__((weak));
}

namespace strata {
namespace {

// The C++ run time may have been loaded after us, by dlopen: then the weak reference is null.
template <class F>
F* Late(F* weak, const char* name) {
  return weak != nullptr ? weak : reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

[[noreturn]] void ThrowBadAlloc() {
  if (auto* thrower = Late(&_ZSt17__throw_bad_allocv, "_ZSt17__throw_bad_allocv")) thrower();
  Message().Text("operator new: out of memory, and no C++ run time to throw std::bad_alloc").Send();
  __builtin_trap();
}

std::new_handler CurrentHandler() {
  auto* get = Late(&_ZSt15get_new_handlerv, "_ZSt15get_new_handlerv");
  return get != nullptr ? get() : nullptr;
}

}  // namespace

void* NewSlow(size_t size, size_t align) {
  while (true) {
    const std::new_handler handler = CurrentHandler();
    if (handler == nullptr) ThrowBadAlloc();
    handler();
    void* p = align == 1 ? Allocate(size) : AllocateAligned(size, align);
    if (p != nullptr) return p;
  }
}

}  // namespace strata

namespace {

STRATA_ALWAYS_INLINE void* New(size_t size) {
  void* p = strata::Allocate(size);
  return STRATA_LIKELY(p != nullptr) ? p : strata::NewSlow(size, 1);
}

STRATA_ALWAYS_INLINE void* NewAligned(size_t size, std::align_val_t align) {
  void* p = strata::AllocateAligned(size, static_cast<size_t>(align));
  return STRATA_LIKELY(p != nullptr) ? p : strata::NewSlow(size, static_cast<size_t>(align));
}

}  // namespace

// clang-format off
STRATA_EXPORT void* operator new(size_t size) { return New(size); }
STRATA_EXPORT void* operator new[](size_t size) { return New(size); }
STRATA_EXPORT void* operator new(size_t size, std::align_val_t align) { return NewAligned(size, align); }
STRATA_EXPORT void* operator new[](size_t size, std::align_val_t align) { return NewAligned(size, align); }

STRATA_EXPORT void operator delete(void* p) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete[](void* p) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete(void* p, size_t size) noexcept { strata::FreeSized(p, size); }
STRATA_EXPORT void operator delete[](void* p, size_t size) noexcept { strata::FreeSized(p, size); }
STRATA_EXPORT void operator delete(void* p, const std::nothrow_t&) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete[](void* p, const std::nothrow_t&) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete(void* p, std::align_val_t) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete[](void* p, std::align_val_t) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { strata::Free(p); }
STRATA_EXPORT void operator delete(void* p, size_t size, std::align_val_t align) noexcept { strata::FreeSizedAligned(p, size, static_cast<size_t>(align)); }
STRATA_EXPORT void operator delete[](void* p, size_t size, std::align_val_t align) noexcept { strata::FreeSizedAligned(p, size, static_cast<size_t>(align)); }
// clang-format on

extern "C" {
void* strata::strata_own_new(size_t) __attribute__((alias("_Znwm")));
void* strata::strata_own_new_aligned(size_t, std::align_val_t)
    __attribute__((alias("_ZnwmSt11align_val_t")));
}
