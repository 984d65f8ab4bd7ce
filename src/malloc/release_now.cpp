// Giving free memory back at once. See release_now.h.
#include "malloc/release_now.h"

#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/side_stack.h"

namespace strata {

void EmptyFrontEnd(Runtime& r) {
  FindInheritedConfinement();  // or other CPUs' caches stay as they are
  if (ProcessThreadCache* cache = t_state.cache) cache->Flush(r.transfer);
  {
    LockHolder hold(r.thread_list_lock);
    for (ProcessThreadCache* t = r.thread_caches; t != nullptr; t = t->next) {
      if (t != t_state.cache) t->flush_wanted.store(true, std::memory_order_relaxed);
    }
  }
  if (r.per_cpu) r.cpu.DrainAll();
  r.transfer.Flush();
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
