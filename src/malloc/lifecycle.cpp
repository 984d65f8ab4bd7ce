// The process's life: the library's constructor and destructor, and fork. Before a fork every lock
// is taken in rank order, so that the child finds every structure whole; both sides then let go.
// Sits in malloc.
#include <pthread.h>

#include "malloc/background.h"
#include "malloc/runtime.h"
#include "malloc/stats_output.h"

namespace strata {
namespace {

template <class F>
void VisitAllLocks(Runtime& r, F f) {
  f(ControlLock());
  f(r.thread_list_lock);
  if (r.per_cpu) r.cpu.VisitLocks(f);
  r.heap.VisitLocks(f);
}

void BeforeFork() STRATA_NO_TSA {
  if (CurrentState() == RunState::kReady)
    VisitAllLocks(TheRuntime(), [](Lock& l) STRATA_NO_TSA { l.Acquire(); });
}

void AfterFork() STRATA_NO_TSA {
  if (CurrentState() == RunState::kReady)
    VisitAllLocks(TheRuntime(), [](Lock& l) STRATA_NO_TSA { l.Release(); });
}

void AfterForkInChild() STRATA_NO_TSA {
  AfterFork();
  BackgroundForgetInChild();
  if (CurrentState() == RunState::kReady) TheRuntime().heap.page_heap().RecoverInChild();
}

// Early, so that handlers registered later run before ours at a fork and may still allocate.
__attribute__((constructor(101))) void OnLoad() {
  if (EnsureStarted() != RunState::kReady) return;
  pthread_atfork(BeforeFork, AfterFork, AfterForkInChild);
  PrepareOutput();
}

__attribute__((destructor)) void OnExit() {
  if (CurrentState() == RunState::kReady) WriteStatsAtExit();
}

}  // namespace
}  // namespace strata
