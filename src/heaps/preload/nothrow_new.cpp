// What the nothrow forms of operator new do when memory is short: null instead of an exception,
// also when the new-handler throws. Compiled with exceptions; the C++ run time's symbols are weak,
// because a C program that preloads the library has none (and then nothing can throw). clang names
// std::terminate too. Sits in heaps, in every library.
#include "heaps/preload/cxx_new.h"

asm(".weak __gxx_personality_v0\n"
    ".weak _ZSt9terminatev\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n");

namespace strata {

void* NewSlowOrNull(size_t size, size_t align) noexcept {
  try {
    return NewSlow(size, align);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace strata
