// The process's life: the library's constructor and destructor, and fork. Before a fork every lock
// is taken in rank order, so that the child finds every structure whole; both sides then let go.
// Sits in malloc.
#include <pthread.h>

#include "malloc/background.h"
#include "malloc/runtime.h"
#include "malloc/stats_output.h"

// glibc's, exported since 2.2.5; the lock is recursive.
extern "C" {
void _IO_list_lock() __attribute__((weak));
void _IO_list_unlock() __attribute__((weak));
void _IO_list_resetlock() __attribute__((weak));
}

namespace strata {
namespace {

// glibc's fork takes the lock on its list of open files after our handler ran. A thread that holds
// that lock (fflush(NULL)) may wait for a file whose owner waits for us: so it must come before our
// locks, not after.
void LockFiles() {
  if (&_IO_list_lock != nullptr && &_IO_list_unlock != nullptr && &_IO_list_resetlock != nullptr)
    _IO_list_lock();
}
void UnlockFiles() {
  if (&_IO_list_lock != nullptr && &_IO_list_unlock != nullptr && &_IO_list_resetlock != nullptr)
    _IO_list_unlock();
}
void ResetFiles() {
  if (&_IO_list_lock != nullptr && &_IO_list_unlock != nullptr && &_IO_list_resetlock != nullptr)
    _IO_list_resetlock();
}

void BeforeFork() STRATA_NO_TSA {
  if (CurrentState() != RunState::kReady) return;
  Runtime& r = TheRuntime();
  const auto acquire = [](Lock& l) STRATA_NO_TSA { l.Acquire(); };
  LockFiles();
  r.heap.isolation_lock().Acquire();
  r.thread_list_lock.Acquire();
  if (r.per_cpu) r.cpu.AcquireLocks();
  r.heap.VisitLocks(acquire);
}

void ReleaseAll(Runtime& r) STRATA_NO_TSA {
  r.heap.VisitLocks([](Lock& l) STRATA_NO_TSA { l.Release(); });
  if (r.per_cpu) r.cpu.ReleaseLocks();
  r.thread_list_lock.Release();
  r.heap.isolation_lock().Release();
}

void AfterFork() {
  if (CurrentState() != RunState::kReady) return;
  ReleaseAll(TheRuntime());
  UnlockFiles();
}

void AfterForkInChild() {
  if (CurrentState() != RunState::kReady) return;
  ReleaseAll(TheRuntime());
  ResetFiles();
  ForgetStatsWriterInChild();
  BackgroundForgetInChild();
  TheRuntime().heap.page_heap().RecoverInChild();
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
