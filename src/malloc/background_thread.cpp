// The background thread's life. See background_thread.h.
#include "malloc/background_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/errno_keeper.h"
#include "malloc/background.h"
#include "malloc/background_duties.h"
#include "malloc/fork_handlers.h"
#include "malloc/library_thread.h"
#include "malloc/main_exit.h"
#include "malloc/own_process.h"
#include "malloc/watched_calls.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "os/thread_privileges.h"
#include "profile/text_sink.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kRestNs = kSecondNs;  // before another thread starts

std::atomic<bool> g_runs{false};
std::atomic<pid_t> g_tid{0};       // the last one's; 0: none is left in the kernel
std::atomic<uint32_t> g_stop{0};   // 1: it is to end; a futex
std::atomic<int> g_wake_pipe{-1};  // the number of its pipe's writing end in its own table
std::atomic<uint32_t> g_away{0};   // how many want it to be away

// Nobody but the dead main thread and this one is left. The kernel takes the status of the process
// from the last that ends, so this one ends as the main thread did.
[[noreturn]] void EndAs(int status) {
  if (const int signal = status & 0x7f) {
    // The kernel's struct sigaction: handler, flags, restorer, mask.
    const uint64_t by_default[4] = {};
    const uint64_t bit = raw::SignalBit(signal);
    raw::Call(SYS_rt_sigaction, signal, raw::Word(by_default), 0, sizeof(uint64_t));
    raw::Call(SYS_tgkill, raw::Call(SYS_getpid), raw::Call(SYS_gettid), signal);
    raw::Call(SYS_rt_sigprocmask, SIG_UNBLOCK, raw::Word(&bit), 0, sizeof(uint64_t));
  }
  while (true) raw::Call(SYS_exit, (status >> 8) & 0xff);
}

}  // namespace

uint64_t BackgroundSelf::NowNs() { return ReadClock(CLOCK_MONOTONIC); }

bool BackgroundSelf::MustEnd() { return g_stop.load(std::memory_order_acquire) != 0; }

void BackgroundSelf::Sleep(uint64_t ns) {
  const timespec wait = {static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
  raw::Call(SYS_futex, raw::Word(&g_stop), FUTEX_WAIT_PRIVATE, 0, raw::Word(&wait));
}

void BackgroundSelf::WakeBy(int pipe) { g_wake_pipe.store(pipe, std::memory_order_release); }

bool BackgroundSelf::MayGoOn() const {
  const ProcessStatus now = ReadProcessStatus("/proc/self/status");
  if (!now.readable) return false;
  if (now.state == 'Z') {
    // The main thread is dead. Whatever else still runs is the program's, which ends with the last
    // of them: this thread is none of them.
    NoteMainThreadLeft();
    if (now.threads <= 2) EndAs(ReadExitStatus());
    return false;
  }
  if (Unchanged(now)) return true;
  if (now.seccomp != was_.seccomp) NoteOwnConfinement(Confinement::kOwnFilter);
  if (now.no_new_privs && !was_.no_new_privs) NoteOwnConfinement(Confinement::kNoNewPrivs);
  return false;
}

bool BackgroundSelf::Unchanged(const ProcessStatus& now) const {
  // Real, effective, saved. That of the file system comes and goes with each request of a server.
  constexpr size_t kThree = 3 * sizeof(uint32_t);
  return memcmp(now.users, was_.users, kThree) == 0 &&
         memcmp(now.groups, was_.groups, kThree) == 0 && now.seccomp == was_.seccomp &&
         now.no_new_privs == was_.no_new_privs;
}

namespace {

void Run() {
  g_tid.store(static_cast<pid_t>(raw::Call(SYS_gettid)), std::memory_order_release);
  const ProcessStatus status = ReadProcessStatus("/proc/self/status");
  // Without /proc it would not see the program change, nor end.
  if (status.readable) {
    if (MayCallAnything()) {
      raw::Call(SYS_prctl, PR_SET_NAME, raw::Word("strata"));
      DropThreadPrivileges(SeesWhatTheProgramGivesUp() ? KeepIds::kNo : KeepIds::kYes);
    }
    DoBackgroundDuties(BackgroundSelf(status));
  }
  BackgroundEnded(status.readable ? kRestNs : UINT64_MAX / 2);
  // release: what the rounds wrote is seen by whoever does the next.
  g_runs.store(false, std::memory_order_release);
}

void Wake(pid_t tid) {
  raw::Call(SYS_futex, raw::Word(&g_stop), FUTEX_WAKE_PRIVATE, 1);
  const int pipe = g_wake_pipe.load(std::memory_order_acquire);
  if (pipe < 0) return;
  char path[64];
  TextSink sink(path, sizeof(path));
  sink.Text("/proc/self/task/")
      .Number(static_cast<uint64_t>(tid))
      .Text("/fd/")
      .Number(static_cast<uint64_t>(pipe))
      .Finish();
  const int fd = raw::Open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;  // no /proc: it looks at the end of its round
  raw::Write(fd, "", 1);
  raw::Close(fd);
}

}  // namespace

bool StartBackgroundThread() {
  // acquire: what an earlier one did is over. The order of this and the look at g_away is the
  // other way round in BackgroundThreadAway: one of the two sees the other.
  if (g_runs.exchange(true, std::memory_order_seq_cst)) return true;
  g_stop.store(0, std::memory_order_seq_cst);
  if (g_away.load(std::memory_order_seq_cst) == 0 && StartLibraryThread(Run)) return true;
  g_runs.store(false, std::memory_order_release);
  return false;
}

bool BackgroundThreadIsAway() { return g_away.load(std::memory_order_relaxed) != 0; }

bool BackgroundThreadRuns() { return g_runs.load(std::memory_order_acquire); }

namespace {

bool IsInKernel(long self, pid_t tid) {
  return tid != 0 && raw::Call(SYS_tgkill, self, tid, 0) == 0;
}

// A thread that ended by itself is on its way out of libc; its number may be another's by now.
void AwaitLastOne(long self) {
  constexpr timespec kNap{0, 50'000};
  constexpr int kMostNaps = 20;
  const pid_t tid = g_tid.load(std::memory_order_acquire);
  for (int i = 0; i < kMostNaps && IsInKernel(self, tid); ++i) raw::Nanosleep(&kNap, nullptr);
  g_tid.store(0, std::memory_order_relaxed);
}

void EndAndAwait(long self) {
  constexpr timespec kNap{0, 50'000};
  constexpr uint64_t kMostNs = 2 * kSecondNs;
  const uint64_t end = BackgroundSelf::NowNs() + kMostNs;
  for (uint32_t i = 0; BackgroundSelf::NowNs() < end; ++i) {
    const pid_t tid = g_tid.load(std::memory_order_acquire);
    g_stop.store(1, std::memory_order_seq_cst);
    if (tid != 0 && i % 16 == 0) Wake(tid);
    if (!g_runs.load(std::memory_order_acquire) && !IsInKernel(self, tid)) {
      g_tid.store(0, std::memory_order_relaxed);
      return;
    }
    raw::Nanosleep(&kNap, nullptr);
  }
}

}  // namespace

BackgroundThreadAway::BackgroundThreadAway() {
  const ErrnoKeeper keep;
  if (ForkedUnseen()) RenewUnseenChild();
  g_away.fetch_add(1, std::memory_order_seq_cst);
  const bool runs = g_runs.load(std::memory_order_seq_cst);
  if ((!runs && g_tid.load(std::memory_order_relaxed) == 0) || BorrowsMemory()) return;
  const long self = raw::Call(SYS_getpid);
  if (runs) {
    EndAndAwait(self);
  } else {
    AwaitLastOne(self);
  }
}

// Not below zero: a child that was forked meanwhile begins at zero.
BackgroundThreadAway::~BackgroundThreadAway() {
  uint32_t now = g_away.load(std::memory_order_relaxed);
  while (now != 0 && !g_away.compare_exchange_weak(now, now - 1, std::memory_order_seq_cst)) {
  }
}

void ForgetBackgroundThread() {
  ForgetLibraryThreads();
  g_away.store(0, std::memory_order_relaxed);
  g_runs.store(false, std::memory_order_relaxed);
  g_tid.store(0, std::memory_order_relaxed);
  g_wake_pipe.store(-1, std::memory_order_relaxed);
}

}  // namespace strata
