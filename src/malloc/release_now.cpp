// Giving free memory back at once. See release_now.h.
#include "malloc/release_now.h"

#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/side_stack.h"

namespace strata {

void EmptyFrontEnd(Runtime& r) {
  FindInheritedConfinement();  // or other CPUs' caches stay as they are
  r.front().Empty(t_state.cache);
}

size_t ReleaseBytes(size_t bytes) {
  size_t released = 0;
  OnSideStack([&] {
    Runtime& r = TheRuntime();
    EmptyFrontEnd(r);
    released = r.heap.ReleaseNow(bytes);
  });
  return released;
}

}  // namespace strata
