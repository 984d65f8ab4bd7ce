// Threads of the library's own. See library_thread.h.
#include "malloc/library_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/errno_keeper.h"
#include "strata/raw_io.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

// Weak: a static program has none, and names no other pthread_create.
extern "C" void* dlopen(const char*, int) noexcept __attribute__((weak));

namespace strata {
namespace {

using CreateFunction = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
CreateFunction g_create = pthread_create;

// In static storage: a thread that comes to run after its starter stopped waiting still finds it.
struct Launch {
  std::atomic<void (*)()> run{nullptr};  // null: free for the next
  std::atomic<uint32_t> begun{0};        // how many have
};
Launch g_launch;

void* Begin(void*) {
  void (*run)() = g_launch.run.load(std::memory_order_acquire);
  g_launch.begun.fetch_add(1, std::memory_order_release);
  raw::Call(SYS_futex, raw::Word(&g_launch.begun), FUTEX_WAKE_PRIVATE, 1);
  g_launch.run.store(nullptr, std::memory_order_release);
  run();
  return nullptr;
}

void AwaitBegin(uint32_t before) {
  constexpr time_t kMostSeconds = 2;  // a starter of a higher priority may keep its only CPU
  const timespec wait{kMostSeconds, 0};
  if (g_launch.begun.load(std::memory_order_acquire) == before)
    raw::Call(SYS_futex, raw::Word(&g_launch.begun), FUTEX_WAIT_PRIVATE, before, raw::Word(&wait));
}

}  // namespace

#ifdef __GLIBC__
namespace {

// Whether two functions lie in one loaded file. dladdr would look at all of libc's symbols for
// their names, which was 7 % of the time that `true` takes (bench/programs/startup.cpp).
struct TwoFunctions {
  uintptr_t first, second;
  bool in_one_file = false;
};

int LookInFile(dl_phdr_info* file, size_t, void* arg) {
  auto& two = *static_cast<TwoFunctions*>(arg);
  bool first = false, second = false;
  for (size_t i = 0; i < file->dlpi_phnum; ++i) {
    const auto& part = file->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = file->dlpi_addr + part.p_vaddr;
    first |= two.first - begin < part.p_memsz;
    second |= two.second - begin < part.p_memsz;
  }
  two.in_one_file = first && second;
  return first || second ? 1 : 0;  // 1 ends it
}

bool LieInOneFile(const void* first, const void* second) {
  TwoFunctions two{reinterpret_cast<uintptr_t>(first), reinterpret_cast<uintptr_t>(second)};
  dl_iterate_phdr(LookInFile, &two);
  return two.in_one_file;
}

}  // namespace
#endif

// Mostly the next definition is libc's. A tool's may come between; libc's is then found by its
// name, in a call that allocates.
void PrepareLibraryThreads() {
  if (&dlopen == nullptr) return;
  void* create = dlsym(RTLD_NEXT, "pthread_create");
  if (create == nullptr) return;
#ifdef __GLIBC__
  if (!LieInOneFile(create, reinterpret_cast<const void*>(gnu_get_libc_version))) {
    void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (libc == nullptr) return;
    create = dlsym(libc, "pthread_create");
    dlclose(libc);
    if (create == nullptr) return;
  }
#endif
  g_create = reinterpret_cast<CreateFunction>(create);
}

void ForgetLibraryThreads() { g_launch.run.store(nullptr, std::memory_order_relaxed); }

namespace {

// libc puts the program's thread-local variables on the stack and refuses one that they fill. How
// large they are is libc's secret, so the next try has more.
bool TryCreate(pthread_attr_t& attr) {
  constexpr size_t kStackBytes = 256 << 10, kMostStackBytes = 256 << 20;
  int why = EINVAL;
  for (size_t bytes = kStackBytes; why == EINVAL && bytes <= kMostStackBytes; bytes *= 8) {
    pthread_attr_setstacksize(&attr, bytes);
    pthread_t thread;
    why = g_create(&thread, &attr, Begin, nullptr);
  }
  return why == 0;
}

// The program's signals are for its own threads.
#ifdef __GLIBC__
// As an attribute: libc's functions for the mask would strip the caller's of the signals that libc
// uses itself.
bool Create(pthread_attr_t& attr) {
  sigset_t all;
  sigfillset(&all);
  return pthread_attr_setsigmask_np(&attr, &all) == 0 && TryCreate(attr);
}
#else
bool Create(pthread_attr_t& attr) {
  constexpr long kMaskBytes = sizeof(uint64_t);
  const uint64_t all =
      ~(raw::SignalBit(32) | raw::SignalBit(33) | raw::SignalBit(34));  // musl's own
  uint64_t before = 0;
  raw::Call(SYS_rt_sigprocmask, SIG_BLOCK, raw::Word(&all), raw::Word(&before), kMaskBytes);
  const bool made = TryCreate(attr);
  raw::Call(SYS_rt_sigprocmask, SIG_SETMASK, raw::Word(&before), 0, kMaskBytes);
  return made;
}
#endif

}  // namespace

bool StartLibraryThread(void (*run)()) {
  const ErrnoKeeper keep;
  void (*none)() = nullptr;
  if (!g_launch.run.compare_exchange_strong(none, run, std::memory_order_acq_rel)) return false;
  const uint32_t before = g_launch.begun.load(std::memory_order_relaxed);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  const bool made = Create(attr);
  pthread_attr_destroy(&attr);
  if (made) {
    AwaitBegin(before);
  } else {
    g_launch.run.store(nullptr, std::memory_order_relaxed);
  }
  return made;
}

}  // namespace strata
