// Noticing that the main thread leaves. See main_exit.h.
#include "malloc/main_exit.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "malloc/background_thread.h"
#include "malloc/runtime.h"
#include "strata/single_threaded.h"

namespace strata {
namespace {

std::atomic<pthread_t> g_main{0};  // 0: not known, the library was loaded by another thread
std::atomic<bool> g_main_left{false};

}  // namespace

void WatchMainThread() {
  g_main_left.store(false, std::memory_order_relaxed);
  const bool main = IsSurelyAlone() || gettid() == getpid();
  g_main.store(main ? pthread_self() : 0, std::memory_order_relaxed);
  if (main) NoteEndOfThisThread();
}

void NoteThreadLeaves() {
  if (g_main.load(std::memory_order_relaxed) != pthread_self()) return;
  NoteMainThreadLeft();
  const BackgroundThreadAway away;
}

bool MainThreadLeft() { return g_main_left.load(std::memory_order_relaxed); }
void NoteMainThreadLeft() { g_main_left.store(true, std::memory_order_relaxed); }

}  // namespace strata
