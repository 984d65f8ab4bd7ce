// The process's life: the library's constructor and destructor, and fork. Before a fork every lock
// is taken in rank order, so that the child finds every structure whole; both sides then let go.
// Sits in malloc.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/errno_keeper.h"
#include "base/message.h"
#include "base/moment.h"
#include "base/own_variables.h"
#include "malloc/background.h"
#include "malloc/background_thread.h"
#include "malloc/checked.h"
#include "malloc/fork_handlers.h"
#include "malloc/guard.h"
#include "malloc/library_thread.h"
#include "malloc/main_exit.h"
#include "malloc/own_process.h"
#include "malloc/price.h"
#include "malloc/region_calls.h"
#include "malloc/report_calls.h"
#include "malloc/runtime.h"
#include "malloc/start_code.h"
#include "malloc/watched_calls.h"
#include "os/confinement.h"
#include "os/file_list_lock.h"
#include "os/rseq.h"
#include "os/side_stack.h"
#include "profile/stack_walk.h"
#include "strata/raw_io.h"
#include "strata/single_threaded.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

namespace strata {
namespace {

constexpr long kMaskBytes = 8;

// All of them, but for those of reaps, in the order in which they may be taken.
template <class F>
void VisitLocks(Runtime& r, F f) {
  f(PriceLock());
  f(r.heap.isolation_lock());
  f(r.front().threads.lock());
  f(r.sampler.lock());
  if (Lock* checks = LockOfChecks()) f(*checks);
  r.heap.VisitLocks(f);
  f(r.sample_arena.lock());
  f(r.kernel.watch().lock());
}

bool HoldsHeapLock() {
  bool holds = false;
  VisitLocks(TheRuntime(), [&holds](Lock& l) { holds |= l.HeldByThisThread(); });
  return holds;
}

// Not glibc's own two: a thread that changes user ids waits for them with a lock held that whoever
// we wait for may want.
uint64_t BlockSignals() {
  const uint64_t all = ~(raw::SignalBit(32) | raw::SignalBit(33));
  uint64_t before = 0;
  raw::Call(SYS_rt_sigprocmask, SIG_BLOCK, raw::Word(&all), raw::Word(&before), kMaskBytes);
  return before;
}

void RestoreSignals(uint64_t mask) {
  raw::Call(SYS_rt_sigprocmask, SIG_SETMASK, raw::Word(&mask), 0, kMaskBytes);
}

// Of the thread that forks, while it holds all locks.
uint64_t g_signals = 0;
// It is the only one, and has taken none.
bool g_forks_alone = false;
// It held some before.
bool g_interrupted = false;
// Threads that fork with a lock of their own, and have not all others yet.
std::atomic<uint32_t> g_inside{0};

bool IsOnlyThread() { return IsSurelyAlone() && !BackgroundThreadRuns() && !SecondThread::Runs(); }

// The kernel keeps no sequences to the child of a vfork, nor to what that forks: libc's area says
// the contrary.
void ForgetVfork() {
  if (!t_state.vforked) return;
  ForgetRegistration(TheRuntime().rseq);
  t_state.vforked = 0;
}

void RenewChild() {
  ForgetVfork();
  g_inside.store(0, std::memory_order_relaxed);
  ForgetReportsInChild();
  ForgetSideStacks();
  ForgetWaitersInChild();
  ClaimProcess();
  BackgroundForgetInChild();
  ForgetWalkersInChild();
  PaceGuardsAnewInChild();
  RenewHotDomainsInChild();
  WatchMainThread();
}

}  // namespace

void RenewUnseenChild() {
  if (!ClaimUnseenChild()) return;
  ForgetProcessNumber();
  RenewChild();
  ForgetProcessNumber();
}

bool HoldsOwnLock() { return HoldsHeapLock() || HoldsDomainLock() || HoldsReapLock(); }

namespace {

// False: it gave up.
bool LockAll(Runtime& r, AtHeldLock at) STRATA_NO_TSA {
  const bool passes = at == AtHeldLock::kPassBy;
  FileListLock::Acquire();
  bool all = LockHotDomains(at);
  if (all || passes) all &= LockReaps(at);
  VisitLocks(r, [&](Lock& l) STRATA_NO_TSA {
    if (all || passes) all &= l.AcquireForFork(Lock::ForkWait::kAMoment);
  });
  return all || passes;
}

void UnlockAll(Runtime& r) STRATA_NO_TSA {
  VisitLocks(r, [](Lock& l) STRATA_NO_TSA { l.ReleaseAfterFork(); });
  UnlockReaps();
  UnlockHotDomains();
  FileListLock::Release();
}

// One of them can have the list of files meanwhile, however late it comes to run.
void LetOthersFork() {
  constexpr int kMostNaps = 1000;
  int naps = 0;
  do {
    Nap(1'000'000);
  } while (g_inside.load(std::memory_order_relaxed) != 0 && ++naps < kMostNaps);
}

// Such a thread waits for libc before it comes here where libc keeps a lock of its own over all
// handlers.
bool LibcLocksHandlers() {
#ifdef __GLIBC__
  const char* const version = gnu_get_libc_version();
  return version[0] == '2' && strtoul(version + 2, nullptr, 10) < 36;
#else
  return true;
#endif
}

}  // namespace

// A process of one thread has nobody who could be in the middle of something but itself, where a
// signal handler forks: then both sides go on with it when the handler returns. It is spared the
// writes to all locks, each of which costs both sides the copy of a page.
//
// Otherwise no handler runs until the fork is over: one that forks in the middle would release what
// this one took. A handler may have interrupted this thread inside of the heap, though, and be what
// forks: then the thread keeps the locks that it has, on both sides, and waits for the others just
// a moment, as their holders may wait for it. So may another thread that forks, with the list of
// files held that this one needs: who can't have all locks in a moment lets go of them meanwhile.
// But for libc's: then this thread goes on without after some seconds, and its child has a heap in
// which somebody was at work, instead of both being stuck for ever.
void BeforeFork() STRATA_NO_TSA {
  if (CurrentState() != RunState::kReady) return;
  const ErrnoKeeper keep;
  PayForFork();
  if ((g_forks_alone = IsOnlyThread())) return;
  Runtime& r = TheRuntime();
  const uint64_t signals = BlockSignals();
  const bool inside = HoldsOwnLock();
  AtHeldLock at = inside ? AtHeldLock::kPassBy : AtHeldLock::kStop;
  if (inside) g_inside.fetch_add(1, std::memory_order_relaxed);
  HoldWalkersBeforeFork();
  constexpr uint64_t kLongestNs = 3'000'000'000;
  const uint64_t begin = r.kernel.CoarseNowNs();
  while (!LockAll(r, at)) {
    UnlockAll(r);
    LetOthersFork();
    if (r.kernel.CoarseNowNs() - begin >= kLongestNs && LibcLocksHandlers())
      at = AtHeldLock::kPassBy;
  }
  if (inside) g_inside.fetch_sub(1, std::memory_order_relaxed);
  Lock::BeginFork();
  g_signals = signals;
  g_interrupted = at == AtHeldLock::kPassBy;
}

void AfterForkInParent() {
  if (!Lock::ThisThreadForks()) return;
  const ErrnoKeeper keep;
  const uint64_t signals = g_signals;
  Lock::EndFork();
  UnlockAll(TheRuntime());
  ReleaseWalkersAfterFork();
  RestoreSignals(signals);
}

void AfterForkInChild() {
  const ErrnoKeeper keep;
  if (g_forks_alone) return RenewChild();
  if (!Lock::ThisThreadForks()) return;
  const uint64_t signals = g_signals;
  const bool interrupted = g_interrupted;
  Lock::EndFork();
  VisitLocks(TheRuntime(), [](Lock& l) STRATA_NO_TSA { l.ReleaseInForkedChild(); });
  UnlockReapsInForkedChild();
  UnlockHotDomainsInForkedChild();
  FileListLock::ResetInChild();
  RenewChild();
  // Unless this thread was interrupted in the heap or while it gave memory back, and goes on there:
  // then what another was about to give back is lost to the child.
  if (!interrupted && !t_state.at_work) TheRuntime().heap.page_heap().RecoverInChild();
  RestoreSignals(signals);
}

namespace {

// Who asks for profiles may sample densely, and a walk without tables takes a hundred times as
// long; else the background thread makes them in its first round.
void PrepareStackWalks(const Options& o) {
  const bool dense = o.profile_path[0] != '\0' || o.sample_interval != Options().sample_interval;
  const bool asked =
      dense || o.control == ControlChoice::kAlways || o.lifetimes != LifetimeChoice::kOff;
  const bool for_errors = o.check || o.says_guard;
  if ((!asked || o.sample_interval == 0) && !for_errors) return;
  FindInheritedConfinement();  // walks look ahead by a call that a filter may forbid
  RefreshUnwindTables(dense ? TablesFor::kAllCode : TablesFor::kCodeMet);
}

// Early, so that most other handlers run outside of ours. Constructors of libraries that the
// program is linked with may yet have run before; their handlers pass through our locks
// (base/lock.h).
__attribute__((constructor(101))) void OnLoad() {
  // Again: the first malloc may come before libc knows the environment.
  if (RunsForAnother()) DropOwnVariables(environ);
  if (EnsureStarted() != RunState::kReady) return;
  ClaimProcess();
  PrepareLibraryThreads();
  FindWhetherCallsPass();
  pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  PrepareReports();
  WatchMainThread();
  const Options& o = TheRuntime().options;
  PrepareStackWalks(o);
  if (o.control == ControlChoice::kAlways || o.profile_signal != 0) TendBackground();
  NoteLoaded();
}

bool IsAnythingDueAtExit(const Options& o) {
  return o.check || *o.stats != '\0' || *o.prometheus != '\0' || *o.profile_path != '\0';
}

// Of those that OnExit takes.
bool HoldsLockOfExit() {
  return HoldsHeapLock() || HoldsListOfDomains() || WritesReport() || RefreshesUnwindTables();
}

__attribute__((destructor)) void OnExit() {
  if (CurrentState() != RunState::kReady || !IsAnythingDueAtExit(TheRuntime().options)) return;
  // A signal handler that calls exit may have interrupted this thread in the heap: whoever waits
  // for a lock that it held waits for ever.
  if (HoldsLockOfExit()) {
    return Message()
        .Text("a signal handler that interrupted malloc ends the program; nothing is written or ")
        .Text("checked at exit")
        .Warn();
  }
  WriteReportsAtExit();
  CheckAllAtExit();
}

}  // namespace
}  // namespace strata
