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
#include "base/write_all.h"
#include "malloc/background.h"
#include "malloc/background_duties.h"
#include "malloc/fork_handlers.h"
#include "malloc/library_thread.h"
#include "malloc/main_exit.h"
#include "malloc/own_process.h"
#include "malloc/report_calls.h"
#include "malloc/watched_calls.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "os/thread_privileges.h"
#include "profile/stack_walk.h"
#include "profile/text_sink.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kRestNs = kSecondNs;  // before another thread starts

struct Life {
  std::atomic<bool> runs{false};
  std::atomic<pid_t> tid{0};         // the last one's; 0: none is left in the kernel
  std::atomic<uint32_t> stop{0};     // 1: it is to end; a futex
  std::atomic<void*> self{nullptr};  // by its thread pointer
};
constinit Life g_first, g_second;
std::atomic<void (*)()> g_wake_second{nullptr};
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

bool EndAndAwait(Life& life, long self, Patience patience);
bool IsInKernel(long self, pid_t tid);

// Where both of the library's threads look in the same moment each sees the other: the first waits
// for the second, which ends as if others were left. True: it was the other, and has ended.
bool OtherOfOursEnds() {
  const long self = raw::Call(SYS_getpid), tid = raw::Call(SYS_gettid);
  const bool is_first = tid == g_first.tid.load(std::memory_order_relaxed);
  Life& other = is_first ? g_second : g_first;
  const pid_t number = other.tid.load(std::memory_order_acquire);
  if (number == 0 || (other.runs.load(std::memory_order_acquire) && !is_first)) return false;
  if (other.runs.load(std::memory_order_acquire)) EndAndAwait(other, self, Patience::kShort);
  constexpr timespec kNap{0, 1'000'000};
  constexpr int kMostNaps = 2000;
  for (int i = 0; i < kMostNaps && IsInKernel(self, number); ++i) raw::Nanosleep(&kNap, nullptr);
  return ReadProcessStatus("/proc/self/status").threads <= 2;
}

}  // namespace

uint64_t BackgroundSelf::NowNs() { return ReadClock(CLOCK_MONOTONIC); }

bool BackgroundSelf::MustEnd() { return g_first.stop.load(std::memory_order_acquire) != 0; }

void BackgroundSelf::Sleep(uint64_t ns) {
  const timespec wait = {static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
  raw::Call(SYS_futex, raw::Word(&g_first.stop), FUTEX_WAIT_PRIVATE, 0, raw::Word(&wait));
}

void BackgroundSelf::WakeBy(int pipe) { g_wake_pipe.store(pipe, std::memory_order_release); }

bool BackgroundSelf::MayGoOn() const {
  const ProcessStatus now = ReadProcessStatus("/proc/self/status");
  if (!now.readable) return false;
  if (now.state == 'Z') {
    // The main thread is dead. Whatever else still runs is the program's, which ends with the last
    // of them: this thread is none of them.
    NoteMainThreadLeft();
    if (now.threads <= 2 || (now.threads == 3 && OtherOfOursEnds())) EndAs(ReadExitStatus());
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

// Whether what this thread writes is waited for by one that wants it away.
bool WriterMustEnd() {
  return BackgroundSelf::MustEnd() &&
         raw::Call(SYS_gettid) == g_first.tid.load(std::memory_order_relaxed);
}

void Run() {
  g_writer_must_end.store(WriterMustEnd, std::memory_order_relaxed);
  g_first.tid.store(static_cast<pid_t>(raw::Call(SYS_gettid)), std::memory_order_release);
  const ProcessStatus status = ReadProcessStatus("/proc/self/status");
  // Without /proc it would not see the program change, nor end.
  if (status.readable) {
    if (MayCallAnything()) {
      raw::Call(SYS_prctl, PR_SET_NAME, raw::Word("strata"));
      RunWhereProcessRuns();
      DropThreadPrivileges(SeesWhatTheProgramGivesUp() ? KeepIds::kNo : KeepIds::kYes);
    }
    DoBackgroundDuties(BackgroundSelf(status));
  }
  BackgroundEnded(status.readable ? kRestNs : UINT64_MAX / 2);
  // release: what the rounds wrote is seen by whoever does the next.
  g_first.runs.store(false, std::memory_order_release);
}

void WakeFirst(pid_t tid) {
  raw::Call(SYS_futex, raw::Word(&g_first.stop), FUTEX_WAKE_PRIVATE, 1);
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
  if (g_first.runs.exchange(true, std::memory_order_seq_cst)) return true;
  g_first.stop.store(0, std::memory_order_seq_cst);
  if (g_away.load(std::memory_order_seq_cst) == 0 && StartLibraryThread(Run)) return true;
  g_first.runs.store(false, std::memory_order_release);
  return false;
}

bool BackgroundThreadIsAway() { return g_away.load(std::memory_order_seq_cst) != 0; }

bool BackgroundThreadRuns() { return g_first.runs.load(std::memory_order_acquire); }

namespace {

bool IsInKernel(long self, pid_t tid) {
  return tid != 0 && raw::Call(SYS_tgkill, self, tid, 0) == 0;
}

// A thread that ended by itself is on its way out of libc; its number may be another's by now.
void AwaitLastOne(Life& life, long self) {
  constexpr timespec kNap{0, 50'000};
  constexpr int kMostNaps = 20;
  const pid_t tid = life.tid.load(std::memory_order_acquire);
  for (int i = 0; i < kMostNaps && IsInKernel(self, tid); ++i) raw::Nanosleep(&kNap, nullptr);
  life.tid.store(0, std::memory_order_relaxed);
}

void Wake(const Life& life, pid_t tid) {
  if (&life == &g_first) return WakeFirst(tid);
  if (void (*wake)() = g_wake_second.load(std::memory_order_acquire)) wake();
}

// What a signal handler interrupted may keep the thread from its end.
bool IsPatient(Patience patience) {
  return patience == Patience::kLong && !HoldsOwnLock() && !WritesReport() &&
         !RefreshesUnwindTables();
}

bool EndAndAwait(Life& life, long self, Patience patience) {
  constexpr timespec kNap{0, 50'000};
  constexpr uint64_t kShortNs = 2 * kSecondNs, kLongNs = 60 * kSecondNs;
  const uint64_t end = BackgroundSelf::NowNs() + (IsPatient(patience) ? kLongNs : kShortNs);
  for (uint32_t i = 0; BackgroundSelf::NowNs() < end; ++i) {
    const pid_t tid = life.tid.load(std::memory_order_acquire);
    life.stop.store(1, std::memory_order_seq_cst);
    if (tid != 0 && i % 16 == 0) Wake(life, tid);
    if (!life.runs.load(std::memory_order_acquire) && !IsInKernel(self, tid)) {
      life.tid.store(0, std::memory_order_relaxed);
      return true;
    }
    raw::Nanosleep(&kNap, nullptr);
  }
  return false;
}

// True: it is gone.
bool End(Life& life, Patience patience) {
  const bool runs = life.runs.load(std::memory_order_seq_cst);
  if ((!runs && life.tid.load(std::memory_order_relaxed) == 0) || BorrowsMemory()) return true;
  // What destroys an object runs on the second.
  if (runs && life.self.load(std::memory_order_relaxed) == __builtin_thread_pointer()) return true;
  const long self = raw::Call(SYS_getpid);
  if (runs) return EndAndAwait(life, self, patience);
  AwaitLastOne(life, self);
  return true;
}

}  // namespace

BackgroundThreadAway::BackgroundThreadAway(Patience patience) {
  const ErrnoKeeper keep;
  if (ForkedUnseen()) RenewUnseenChild();
  g_away.fetch_add(1, std::memory_order_seq_cst);
  gone_ = End(g_first, patience);
  End(g_second, Patience::kShort);  // it keeps what a change of identity needs, so it can follow
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
  g_first.runs.store(false, std::memory_order_relaxed);
  g_first.tid.store(0, std::memory_order_relaxed);
  g_wake_pipe.store(-1, std::memory_order_relaxed);
}

bool SecondThread::Start(void (*run)(), void (*wake)()) {
  // The order is StartBackgroundThread's.
  if (g_second.runs.exchange(true, std::memory_order_seq_cst)) return true;
  g_second.stop.store(0, std::memory_order_seq_cst);
  g_wake_second.store(wake, std::memory_order_release);
  if (!BackgroundThreadIsAway() && StartLibraryThread(run)) return true;
  g_second.runs.store(false, std::memory_order_release);
  return false;
}

bool SecondThread::Runs() { return g_second.runs.load(std::memory_order_seq_cst); }

void SecondThread::Begin() {
  g_second.self.store(__builtin_thread_pointer(), std::memory_order_relaxed);
  g_second.tid.store(static_cast<pid_t>(raw::Call(SYS_gettid)), std::memory_order_release);
  // A destructor of the program's that runs here may change the identity.
  if (!MayCallAnything()) return;
  RunWhereProcessRuns();
  DropThreadPrivileges(KeepIds::kYes);
}

bool SecondThread::MustEnd() { return g_second.stop.load(std::memory_order_acquire) != 0; }

void SecondThread::Ended() {
  g_second.self.store(nullptr, std::memory_order_relaxed);
  // release: what the thread wrote is seen by whoever starts the next.
  g_second.runs.store(false, std::memory_order_seq_cst);
}

void SecondThread::GoOnInChild() {
  g_second.tid.store(0, std::memory_order_relaxed);
  g_second.stop.store(0, std::memory_order_relaxed);
  g_second.runs.store(true, std::memory_order_relaxed);
}

void SecondThread::ForgetInChild() {
  GoOnInChild();
  g_second.runs.store(false, std::memory_order_relaxed);
  g_second.self.store(nullptr, std::memory_order_relaxed);
}

}  // namespace strata
