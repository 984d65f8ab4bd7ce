// Whose memory this is. See own_process.h.
#include "malloc/own_process.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/units.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/system_kernel.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

std::atomic<pid_t> g_pid{0};
// On a page that the kernel wipes in every child that gets a copy of it, however it was made.
std::atomic<std::atomic<int>*> g_mark{nullptr};

std::atomic<int>* NewMark() {
  void* page = MapMetadata(kNativePageSize);
  if (page == nullptr) return nullptr;
  if (madvise(page, kNativePageSize, MADV_WIPEONFORK) == 0)
    return static_cast<std::atomic<int>*>(page);
  munmap(page, kNativePageSize);  // before Linux 4.14
  return nullptr;
}

}  // namespace

// Under a filter from before the start not even its number is asked for; a vfork child is known all
// the same.
void ClaimProcess() {
  if (MayCallAnything())
    g_pid.store(static_cast<pid_t>(raw::Call(SYS_getpid)), std::memory_order_relaxed);
  std::atomic<int>* mark = g_mark.load(std::memory_order_relaxed);
  if (mark == nullptr) {
    mark = NewMark();
    g_mark.store(mark, std::memory_order_relaxed);
  }
  if (mark != nullptr) mark->store(1, std::memory_order_relaxed);
}

bool ForkedUnseen() {
  const std::atomic<int>* mark = g_mark.load(std::memory_order_relaxed);
  return mark != nullptr && mark->load(std::memory_order_relaxed) == 0;
}

bool BorrowsMemory() {
  if (t_state.vforked) return true;
  const pid_t pid = g_pid.load(std::memory_order_relaxed);
  return pid != 0 && pid != static_cast<pid_t>(raw::Call(SYS_getpid)) && !ForkedUnseen();
}

}  // namespace strata
