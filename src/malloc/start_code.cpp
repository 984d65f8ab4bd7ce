// Letting go of what the start has run. See start_code.h.
#include "malloc/start_code.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "os/confinement.h"
#include "os/page_bytes.h"

// Of cmake/StrataOrder.cmake: between them lies nothing that the library ever writes. Null in a
// program that is linked with the archive.
extern "C" {
extern const char strata_once_begin[] __attribute__((weak, visibility("hidden")));
extern const char strata_once_end[] __attribute__((weak, visibility("hidden")));
}

namespace strata {
namespace {

constinit std::atomic<bool> g_due{false};

}  // namespace

void NoteLoaded() { g_due.store(true, std::memory_order_relaxed); }

void LetGoOfStartCode() {
  if (!g_due.load(std::memory_order_relaxed) || !g_due.exchange(false, std::memory_order_relaxed))
    return;
  const uintptr_t begin =
      RoundUp(reinterpret_cast<uintptr_t>(strata_once_begin), KernelPageBytes());
  const uintptr_t end = RoundUp(reinterpret_cast<uintptr_t>(strata_once_end), KernelPageBytes());
  if (begin >= end || !MayAdvise()) return;
  const ErrnoKeeper keep;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace strata
