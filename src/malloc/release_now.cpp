// Giving free memory back at once. See release_now.h.
#include "malloc/release_now.h"

#include "base/errno_keeper.h"
#include "malloc/runtime.h"

namespace strata {

void EmptyFrontEnd(Runtime& r) {
  if (ThreadCache* cache = t_state.cache) cache->Flush(r.transfer);
  {
    LockHolder hold(r.thread_list_lock);
    for (ThreadCache* t = r.thread_caches; t != nullptr; t = t->next) {
      if (t != t_state.cache) t->flush_wanted.store(true, std::memory_order_relaxed);
    }
  }
  if (r.per_cpu) r.cpu.DrainAll();
  r.transfer.Flush();
}

size_t ReleaseBytes(size_t bytes) {
  const ErrnoKeeper keep;
  Runtime& r = TheRuntime();
  EmptyFrontEnd(r);
  return r.heap.ReleaseNow(bytes);
}

}  // namespace strata
