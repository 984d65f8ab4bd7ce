// The process's life: the library's constructor and destructor, and fork. Before a fork every lock
// is taken in rank order, so that the child finds every structure whole; both sides then let go.
// Sits in malloc.
#include <pthread.h>

#include "malloc/background.h"
#include "malloc/main_exit.h"
#include "malloc/profile_output.h"
#include "malloc/reaps.h"
#include "malloc/runtime.h"
#include "malloc/stats_output.h"
#include "os/file_list_lock.h"
#include "profile/stack_walk.h"

namespace strata {
namespace {

void BeforeFork() STRATA_NO_TSA {
  if (CurrentState() != RunState::kReady) return;
  Runtime& r = TheRuntime();
  HoldWalkersBeforeFork();
  const auto acquire = [](Lock& l) STRATA_NO_TSA { l.AcquireForFork(); };
  FileListLock::Acquire();
  LockReaps();
  r.heap.isolation_lock().AcquireForFork();
  r.thread_list_lock.AcquireForFork();
  r.sampler.lock().AcquireForFork();
  if (r.per_cpu) r.cpu.AcquireLocks();
  r.transfer.AcquireLocks();
  r.heap.VisitLocks(acquire);
  r.sample_arena.lock().AcquireForFork();
  r.kernel.watch().lock().AcquireForFork();
  Lock::SetThisThreadForks(true);
}

void ReleaseAll(Runtime& r) STRATA_NO_TSA {
  Lock::SetThisThreadForks(false);
  r.kernel.watch().lock().ReleaseAfterFork();
  r.sample_arena.lock().ReleaseAfterFork();
  r.heap.VisitLocks([](Lock& l) STRATA_NO_TSA { l.ReleaseAfterFork(); });
  r.transfer.ReleaseLocks();
  if (r.per_cpu) r.cpu.ReleaseLocks();
  r.sampler.lock().ReleaseAfterFork();
  r.thread_list_lock.ReleaseAfterFork();
  r.heap.isolation_lock().ReleaseAfterFork();
  UnlockReaps();
}

void AfterFork() {
  if (!Lock::ThisThreadForks()) return;
  ReleaseAll(TheRuntime());
  FileListLock::Release();
  ReleaseWalkersAfterFork();
}

void AfterForkInChild() {
  if (!Lock::ThisThreadForks()) return;
  ReleaseAll(TheRuntime());
  FileListLock::ResetInChild();
  ForgetStatsWriterInChild();
  BackgroundForgetInChild();
  ForgetWalkersInChild();
  ForgetProfileThreadInChild();
  WatchMainThread();
  TheRuntime().heap.page_heap().RecoverInChild();
}

// An operator who asks for profiles wants the stacks of a program's start too; else the background
// thread makes the tables in its first round.
void PrepareStackWalks(const Options& o) {
  const bool asked = o.control == ControlChoice::kAlways || o.profile_path[0] != '\0' ||
                     o.sample_interval != Options().sample_interval;
  if (asked && o.sample_interval != 0) RefreshUnwindTables();
}

// Early, so that most other handlers run outside of ours. Constructors of libraries that the
// program is linked with may yet have run before; their handlers pass through our locks
// (base/lock.h).
__attribute__((constructor(101))) void OnLoad() {
  if (EnsureStarted() != RunState::kReady) return;
  pthread_atfork(BeforeFork, AfterFork, AfterForkInChild);
  PrepareOutput();
  WatchMainThread();
  InstallProfileSignal();
  const Options& o = TheRuntime().options;
  PrepareStackWalks(o);
  if (o.control == ControlChoice::kAlways || o.profile_signal != 0) StartBackgroundIfNeeded();
}

__attribute__((destructor)) void OnExit() {
  if (CurrentState() != RunState::kReady) return;
  WriteProfileAtExit();
  WriteStatsAtExit();
}

}  // namespace
}  // namespace strata
