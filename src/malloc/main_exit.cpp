// Ending a process that its main thread has left. See main_exit.h.
#include "malloc/main_exit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "malloc/background.h"
#include "malloc/library_thread.h"

namespace strata {
namespace {

pthread_key_t g_key;
bool g_has_key = false;
std::atomic<bool> g_main_watched{false};  // its pthread_exit will be noticed
std::atomic<bool> g_main_left{false};
std::atomic<bool> g_watching{false};

// Whether the main thread is dead and no thread but ours is left.
bool OnlyOursLeft() {
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
  // The dead main thread, this one, and the background thread.
  return atoi(at + 1) <= (ReadBackgroundStats().running ? 3 : 2);
}

void* Watch(void*) {
  while (true) {
    const timespec second{1, 0};
    nanosleep(&second, nullptr);
    if (OnlyOursLeft()) exit(0);
  }
}

void StartWatcher() {
  if (g_watching.exchange(true, std::memory_order_relaxed)) return;
  if (!StartLibraryThread("strata-exit", Watch)) g_watching.store(false, std::memory_order_relaxed);
}

// Runs as a thread-specific-data destructor: in pthread_exit, not in exit.
void MainLeaves(void*) {
  g_main_left.store(true, std::memory_order_relaxed);
  if (ReadBackgroundStats().running) StartWatcher();
}

}  // namespace

void WatchMainThread() {
  g_main_left.store(false, std::memory_order_relaxed);
  g_watching.store(false, std::memory_order_relaxed);
  if (!g_has_key) g_has_key = pthread_key_create(&g_key, MainLeaves) == 0;
  // A library that is loaded late may be loaded by another thread.
  const bool main = gettid() == getpid();
  g_main_watched.store(main && g_has_key && pthread_setspecific(g_key, &g_key) == 0,
                       std::memory_order_relaxed);
}

void StartMainExitWatcherIfNeeded() {
  if (g_main_left.load(std::memory_order_relaxed) ||
      !g_main_watched.load(std::memory_order_relaxed))
    StartWatcher();
}

}  // namespace strata
