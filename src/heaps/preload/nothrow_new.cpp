// What the nothrow forms of operator new do when memory is short: null instead of an exception,
// also when the new-handler throws. Compiled with exceptions. Sits in heaps, in
// every library.
#include "base/weak_cxx_run_time.h"
#include "heaps/preload/cxx_new.h"

namespace strata {

void* NewSlowOrNull(size_t size, size_t align) noexcept {
  try {
    return NewSlow(size, align);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace strata
