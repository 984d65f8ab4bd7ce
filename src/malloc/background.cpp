// The background thread. See background.h.
#include "malloc/background.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "malloc/runtime.h"
#include "malloc/stats_output.h"
#include "os/cgroup.h"

namespace strata {

namespace background_internal {
constinit std::atomic<bool> g_may_start{true};
}  // namespace background_internal

namespace {

using background_internal::g_may_start;

constexpr size_t kNeededFromPages =
    1024;  // 8 MiB in use: below that there is nothing worth giving back
constexpr uint32_t kIdleDrainTicks = 2;
constexpr size_t kStackBytes = 256 << 10;

CgroupWatch g_cgroup;  // this and the next: the background thread's
uint32_t g_ticks_without_limit = 0;
constexpr uint32_t kTicksBetweenLooks = 60;  // where there is no limit: one may be set later
std::atomic<uint32_t> g_calls_to_skip{0};
constexpr uint32_t kCallsBetweenTries = 10'000;
std::atomic<bool> g_running{false};
std::atomic<uint64_t> g_ticks{0};
std::atomic<uint64_t> g_released{0};

// When the program's main thread has called pthread_exit, the process ends with its last thread;
// ours must not be counted as one. glibc would call exit(0) in the last thread, so we do.
bool IsLastThread() {
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[1024];
  const ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  const char* at = strrchr(text, ')');  // the command name may hold anything, but ends here
  if (at == nullptr || at[1] == '\0' || at[2] != 'Z') return false;
  // State is field 3, the number of threads field 20.
  for (int field = 3; field < 20; ++field) {
    at = strchr(at + (field == 3 ? 2 : 1), ' ');
    if (at == nullptr) return false;
  }
  return atoi(at + 1) <= 2;  // the dead main thread and this one
}

void Sleep() {
  timespec second{1, 0};
  nanosleep(&second, nullptr);
}

// Near the cgroup's limit the estimate of demand no longer counts: better a page fault than the
// kernel's killer. The last tenth of the limit is the mark.
void ReleaseNearLimit(Runtime& r) {
  if (g_ticks_without_limit != 0) {
    --g_ticks_without_limit;
    return;
  }
  const CgroupMemory m = g_cgroup.Read();
  if (m.limit == 0) g_ticks_without_limit = kTicksBetweenLooks;
  if (m.limit == 0 || m.usage < m.limit - m.limit / 10) return;
  if (r.per_cpu) r.cpu.DrainAll();
  r.heap.ReleaseNow(m.usage - m.limit + m.limit / 5);  // back to 80 %
}

void* Run(void*) {
  Runtime& r = TheRuntime();
  g_cgroup.Find("/sys/fs/cgroup", "/proc/self/cgroup");
  uint64_t since_stats = 0;
  while (true) {
    Sleep();
    if (IsLastThread()) exit(0);
    BackgroundTick();
    if (r.options.stats_interval_s != 0 && ++since_stats >= r.options.stats_interval_s) {
      since_stats = 0;
      WriteStatsFile(r.options.stats);
    }
  }
}

}  // namespace

void BackgroundTick() {
  Runtime& r = TheRuntime();
  if (r.per_cpu) {
    for (size_t v = 0; v < r.cpu.max_vcpus(); ++v) r.cpu.DrainIfIdle(v, kIdleDrainTicks);
  }
  const HeapTick tick = r.heap.Tick(r.options.release);
  if (r.options.release) ReleaseNearLimit(r);
  g_ticks.store(g_ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  g_released.store(g_released.load(std::memory_order_relaxed) + tick.released_bytes,
                   std::memory_order_relaxed);
}

// Takes no lock while the thread is made: pthread_create allocates through us.
void StartBackgroundSlow() {
  Runtime& r = TheRuntime();
  const bool wanted =
      r.options.background && (r.options.release || r.options.stats_interval_s != 0);
  if (!wanted) {
    g_may_start.store(false, std::memory_order_relaxed);
    return;
  }
  if (r.heap.pages_in_use() < kNeededFromPages && r.options.stats_interval_s == 0) return;
  const uint32_t skip = g_calls_to_skip.load(std::memory_order_relaxed);
  if (skip != 0) return g_calls_to_skip.store(skip - 1, std::memory_order_relaxed);
  if (!g_may_start.exchange(false, std::memory_order_relaxed)) return;
  const int saved = errno;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, kStackBytes);
  // The program's signals are for its own threads.
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_t thread;
  const bool made = pthread_create(&thread, &attr, Run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attr);
  if (made) {
    pthread_setname_np(thread, "strata");
  } else {
    // No room for a thread now; later there may be.
    g_calls_to_skip.store(kCallsBetweenTries, std::memory_order_relaxed);
    g_may_start.store(true, std::memory_order_relaxed);
  }
  g_running.store(made, std::memory_order_relaxed);
  errno = saved;
}

BackgroundStats ReadBackgroundStats() {
  return {g_running.load(std::memory_order_relaxed), g_ticks.load(std::memory_order_relaxed),
          g_released.load(std::memory_order_relaxed)};
}

void BackgroundForgetInChild() {
  g_running.store(false, std::memory_order_relaxed);
  g_may_start.store(true, std::memory_order_relaxed);
}

}  // namespace strata
