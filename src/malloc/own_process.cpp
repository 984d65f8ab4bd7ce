// Whose memory this is. See own_process.h.
#include "malloc/own_process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "base/units.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/metadata_memory.h"
#include "strata/raw_io.h"
#include "strata/single_threaded.h"

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

// By what libc knows: the clock of a thread is made of its number. Of the only thread that is the
// process's, too.
pid_t NumberOfProcess() {
  clockid_t clock = 0;
  if (!IsSurelyAlone() || pthread_getcpuclockid(pthread_self(), &clock) != 0) return 0;
  return static_cast<pid_t>(~(clock >> 3));
}

}  // namespace

void ForgetProcessNumber() { g_pid.store(0, std::memory_order_relaxed); }

// Under a filter from before the start not even its number is asked for.
void ClaimProcess() {
  g_pid.store(NumberOfProcess(), std::memory_order_relaxed);
  std::atomic<int>* mark = g_mark.load(std::memory_order_relaxed);
  if (mark == nullptr) {
    mark = NewMark();
    g_mark.store(mark, std::memory_order_relaxed);
  }
  if (mark != nullptr) mark->store(1, std::memory_order_relaxed);
}

pid_t ProcessNumber() {
  const pid_t known = g_pid.load(std::memory_order_relaxed);
  if (MayCallAnything() || (known == 0 && MayOpenFiles())) return getpid();
  return known;
}

bool ForkedUnseen() {
  const std::atomic<int>* mark = g_mark.load(std::memory_order_relaxed);
  return mark != nullptr && mark->load(std::memory_order_relaxed) == 0;
}

bool ClaimUnseenChild() {
  std::atomic<int>* mark = g_mark.load(std::memory_order_relaxed);
  int unseen = 0;
  return mark != nullptr && mark->compare_exchange_strong(unseen, 2, std::memory_order_relaxed);
}

bool BorrowsMemory() {
  if (t_state.vforked) return true;
  const pid_t pid = g_pid.load(std::memory_order_relaxed);
  return pid != 0 && pid != static_cast<pid_t>(raw::Call(SYS_getpid)) && !ForkedUnseen();
}

}  // namespace strata
