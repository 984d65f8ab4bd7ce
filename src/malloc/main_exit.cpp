// Noticing that the main thread leaves. See main_exit.h.
#include "malloc/main_exit.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "malloc/background_thread.h"

namespace strata {
namespace {

pthread_key_t g_key;
bool g_has_key = false;
std::atomic<bool> g_main_left{false};

// Runs as a thread-specific-data destructor: in pthread_exit, not in exit.
void MainLeaves(void*) {
  NoteMainThreadLeft();
  const BackgroundThreadAway away;
}

}  // namespace

void WatchMainThread() {
  g_main_left.store(false, std::memory_order_relaxed);
  if (!g_has_key) g_has_key = pthread_key_create(&g_key, MainLeaves) == 0;
  // A library that is loaded late may be loaded by another thread.
  if (g_has_key && gettid() == getpid()) pthread_setspecific(g_key, &g_key);
}

bool MainThreadLeft() { return g_main_left.load(std::memory_order_relaxed); }
void NoteMainThreadLeft() { g_main_left.store(true, std::memory_order_relaxed); }

}  // namespace strata
