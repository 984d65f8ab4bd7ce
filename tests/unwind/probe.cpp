// The stack walk of src/profile as a library of its own, for programs that compare it with glibc's
// backtrace. Built with -DPROBE_MALLOC it is preloaded instead: it walks the stack in every
// PROBE_EVERYth allocation of a program that knows nothing of it, and writes what it found to
// PROBE_OUT at exit.
#include "os/confinement.h"
#include "profile/stack_walk.h"
#include "profile/unwind/walk_step.h"

#include <cstdint>

#define PROBE_API extern "C" __attribute__((visibility("default")))

PROBE_API size_t probe_walk(uintptr_t* out, size_t max) { return strata::WalkStack(out, max); }
PROBE_API int probe_stale() { return strata::UnwindTablesStale(); }
// Walks look ahead by a call that a filter may forbid.
PROBE_API void probe_start() { strata::FindInheritedConfinement(); }
PROBE_API int probe_refresh() {
  probe_start();
  return strata::RefreshUnwindTables(strata::TablesFor::kAllCode);
}
PROBE_API void probe_round() { strata::KeepUnwindTables(); }
PROBE_API void probe_fork() { strata::HoldWalkersBeforeFork(); }
PROBE_API void probe_fork_parent() { strata::ReleaseWalkersAfterFork(); }
PROBE_API size_t probe_bytes() { return strata::UnwindTableBytes(); }
PROBE_API void probe_forked() { strata::ForgetWalkersInChild(); }

#ifdef PROBE_MALLOC
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr size_t kMax = 64;

std::atomic<uint64_t> g_calls{0};
std::atomic<uint64_t> g_walks{0};
std::atomic<uint64_t> g_frames{0};
std::atomic<uint64_t> g_differ{0};  // from backtrace
std::atomic<uint64_t> g_cut{0};     // walks that filled all the room
std::atomic<bool> g_ready{false};
std::atomic<uint64_t> g_every{0};
thread_local bool t_busy = false;

// The innermost frames that the two may see differently: this file's own.
size_t SkipSelf(void** frames, size_t n, uintptr_t first) {
  for (size_t i = 0; i < n; ++i) {
    if (reinterpret_cast<uintptr_t>(frames[i]) == first) return i;
  }
  return n;
}

__attribute__((noinline)) void Look(const strata::WalkStart* from = nullptr) {
  if (!g_ready.load(std::memory_order_acquire) || t_busy) return;
  if (g_calls.fetch_add(1, std::memory_order_relaxed) % g_every.load() != 0) return;
  t_busy = true;
  uintptr_t ours[kMax];
  void* theirs[kMax];
  const size_t n = strata::WalkStack(ours, kMax - 8, nullptr, from);
  const auto m = static_cast<size_t>(backtrace(theirs, kMax));
  const size_t skip = SkipSelf(theirs, m, ours[0]);
  g_walks.fetch_add(1);
  g_frames.fetch_add(n);
  bool differ = n == kMax - 8 ? m - skip < n : m - skip != n;
  for (size_t i = 0; i < n && !differ; ++i)
    differ = ours[i] != reinterpret_cast<uintptr_t>(theirs[skip + i]);
  if (differ) g_differ.fetch_add(1);
  if (n == kMax - 8) g_cut.fetch_add(1);
  t_busy = false;
}

void WriteResult() {
  g_ready = false;
  const char* path = getenv("PROBE_OUT");
  char text[200];
  const int n = snprintf(text, sizeof(text), "%lu %lu %lu %lu %zu\n", g_walks.load(),
                         g_frames.load(), g_differ.load(), g_cut.load(), probe_bytes());
  const int fd = open(path != nullptr ? path : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, text, static_cast<size_t>(n)) != n) _exit(97);
  close(fd);
}

// As Strata's background thread does.
void* Refresher(void*) {
  for (;;) {
    usleep(20000);
    if (strata::UnwindTablesStale()) strata::RefreshUnwindTables();
  }
}

__attribute__((constructor)) void Begin() {
  void* frames[4];
  backtrace(frames, 4);  // loads libgcc now
  const char* every = getenv("PROBE_EVERY");
  g_every = every != nullptr ? strtoul(every, nullptr, 10) : 1;
  probe_start();
  if (getenv("PROBE_UNPREPARED") == nullptr) {
    if (!probe_refresh()) _exit(98);
    pthread_t thread;
    if (pthread_create(&thread, nullptr, Refresher, nullptr) != 0) _exit(99);
    pthread_detach(thread);
  }
  pthread_atfork(nullptr, nullptr, strata::ForgetWalkersInChild);
  g_ready = true;
}

__attribute__((destructor)) void End() { WriteResult(); }

}  // namespace

// The allocator that the program would have used: redis-server brings jemalloc.
template <class F>
F Following(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

PROBE_API void* malloc(size_t n) {
  static const auto next = Following<void* (*)(size_t)>("malloc");
  const strata::WalkStart from = strata::StartAtCall();  // as malloc's samples do
  Look(&from);
  return next(n);
}
PROBE_API void* calloc(size_t n, size_t size) {
  static const auto next = Following<void* (*)(size_t, size_t)>("calloc");
  Look();
  return next(n, size);
}
PROBE_API void* realloc(void* p, size_t n) {
  static const auto next = Following<void* (*)(void*, size_t)>("realloc");
  Look();
  return next(p, n);
}
#endif

#ifdef PROBE_PREPARE
#include <stdio.h>
#include <time.h>
#include <unistd.h>

namespace {

double NowUs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

double TextMiB() {
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == nullptr) return 0;
  unsigned long begin;
  unsigned long end;
  char rights[8];
  double bytes = 0;
  char line[4096];
  while (fgets(line, sizeof(line), maps) != nullptr) {
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && rights[2] == 'x')
      bytes += static_cast<double>(end - begin);
  }
  fclose(maps);
  return bytes / (1 << 20);
}

__attribute__((constructor)) void Prepare() {
  const double begin = NowUs();
  const bool ok = strata::RefreshUnwindTables();
  const double first = NowUs() - begin;
  const double again_at = NowUs();
  strata::RefreshUnwindTables();
  const double again = NowUs() - again_at;
  const auto kib = static_cast<double>(strata::UnwindTableBytes()) / 1024;
  printf("%sprepared in %.1f ms, again in %.1f ms: %.1f MiB of code, %.0f KiB of tables, %.1f %%\n",
         ok ? "" : "not ", first / 1e3, again / 1e3, TextMiB(), kib, kib / 10.24 / TextMiB());
  fflush(stdout);
  _exit(ok ? 0 : 1);
}

}  // namespace
#endif
