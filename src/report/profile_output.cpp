// Profiles at exit and on a signal. See profile_output.h.
#include "report/profile_output.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "base/errno_keeper.h"
#include "base/error_text.h"
#include "base/lock.h"
#include "base/message.h"
#include "malloc/background_thread.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "profile/text_sink.h"
#include "report/output_path.h"
#include "report/profile_api.h"
#include "strata/raw_io.h"
#include "strata/strata.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {
namespace {

constinit Lock g_profile_lock{LockRank::kControl};
int g_said STRATA_GUARDED_BY(g_profile_lock) = 0;  // the error that was last complained of

std::atomic<uint32_t> g_asked{0};    // signals that came
std::atomic<uint32_t> g_written{0};  // of them, those that were seen to
std::atomic<pid_t> g_thread{0};      // the background thread; 0: none runs

// Runs on any thread, anywhere.
void OnProfileSignal(int number) {
  const ErrnoKeeper keep;
  g_asked.fetch_add(1, std::memory_order_relaxed);
  const pid_t thread = g_thread.load(std::memory_order_relaxed);
  // Another may have its number by now, this one even: it must not wake itself for ever.
  if (thread != 0 && thread != gettid()) syscall(SYS_tgkill, getpid(), thread, number);
}

void Complain(const char* path, int error) {
  Message()
      .Text("can't write a profile to ")
      .Text(path)
      .Text(": ")
      .Text(error == ENOTSUP ? "sampling is off (STRATA_SAMPLE)" : ErrorText(error))
      .Warn();
}

// Replaced whole, as the statistics are. `number`: appended to the path unless 0.
void WriteProfileFile(uint32_t number) {
  const ErrnoKeeper keep;
  const Options& o = TheRuntime().options;
  char path[4096];  // room for the longest option that is all %p
  ExpandPath(o.profile_path, path, sizeof(path));
  char numbered[4200];
  TextSink name(numbered, sizeof(numbered));
  name.Text(path);
  if (number != 0 && MayStandBeside(path)) name.Char('.').Number(number);
  name.Finish();
  // The exit and the background thread may both come here.
  LockHolder hold(g_profile_lock);
  OutputFile file(numbered, 0600);
  const int error = file.Finish(file.fd() < 0 ? 0 : WriteProfile(o.profile_kind, file.fd()));
  // At every interval the same is said once; who asks by a signal hears why there is nothing.
  if (error == 0 || (number == 0 && error == g_said)) return;
  if (number == 0) g_said = error;
  Complain(numbered, error);
}

sigset_t TheSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, TheRuntime().options.profile_signal);
  return set;
}

}  // namespace

// What the background thread may be writing comes to nothing: it would be waited for as long as
// somebody does not read.
void WriteProfileAtExit() {
  if (TheRuntime().options.profile_path[0] == '\0' || !MayWriteFiles()) return;
  const BackgroundThreadAway away;
  WriteProfileFile(0);
}

bool WritesProfile() { return g_profile_lock.HeldByThisThread(); }

void RewriteProfile() {
  if (MayWriteFiles()) WriteProfileFile(0);
}

void InstallProfileSignal() {
  const Options& o = TheRuntime().options;
  if (o.profile_signal == 0) return;
  const ErrnoKeeper keep;
  struct sigaction now{};
  if (sigaction(o.profile_signal, nullptr, &now) != 0) return;
  if (now.sa_handler != SIG_DFL) {
    Message()
        .Text("STRATA_PROFILE_SIGNAL: the program ignores or handles this signal; left alone")
        .Send();
    return;
  }
  struct sigaction ours{};
  ours.sa_handler = OnProfileSignal;
  ours.sa_flags = SA_RESTART;
  sigfillset(&ours.sa_mask);
  sigaction(o.profile_signal, &ours, nullptr);
}

void ForgetProfileThread() { g_thread.store(0, std::memory_order_relaxed); }

// The thread that may have held the lock exists only in the parent; fork does not wait for a disk.
void ForgetProfileWriterInChild() {
  ::new (&g_profile_lock) Lock(LockRank::kControl);
  ForgetProfileThread();
}

void ProfileSignal::Open(DescriptorTable table) {
  if (TheRuntime().options.profile_signal == 0) return;
  if (table == DescriptorTable::kOwn) {
    const sigset_t set = TheSignal();
    fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  g_thread.store(gettid(), std::memory_order_relaxed);
}

size_t ProfileSignal::FillPoll(pollfd* out) const {
  if (fd_ < 0 || resting_) return 0;
  *out = {fd_, POLLIN, 0};
  return 1;
}

// Takes what the handler sent to this thread, and is only called if it ran: a signal to the whole
// process that every thread of the program blocks is pending for the program, not for us.
void ProfileSignal::Drain() {
  signalfd_siginfo info;
  while (fd_ >= 0 && raw::Read(fd_, &info, sizeof(info)) > 0 && info.ssi_code == SI_TKILL) {
  }
}

bool ProfileSignal::Readable() const {
  pollfd entry{fd_, POLLIN, 0};
  return fd_ >= 0 && !resting_ && raw::Poll(&entry, 1, 0) > 0;
}

// A signal to the process shows here for the moment until a thread of the program takes it and the
// handler runs. If it stays, every thread blocks it: then it is the program's, and looking at it
// must not keep this thread awake.
void ProfileSignal::LookAgainLater() {
  constexpr uint32_t kLooks = 50;
  const timespec moment{0, 1'000'000};
  raw::Nanosleep(&moment, nullptr);
  resting_ = ++looks_ >= kLooks;
}

void ProfileSignal::WriteIfAsked() {
  const uint32_t asked = g_asked.load(std::memory_order_relaxed);
  if (asked == g_written.load(std::memory_order_relaxed)) {
    if (Readable()) LookAgainLater();
    return;
  }
  Drain();
  // Several signals within one write are one profile, as they are one signal to the kernel.
  g_written.store(asked, std::memory_order_relaxed);
  WriteProfileFile(asked);
}

}  // namespace strata

STRATA_EXPORT int strata_profile_window(const char* kind, unsigned milliseconds, int fd) {
  if (kind == nullptr) return EINVAL;
  const strata::ErrnoKeeper keep;
  strata::ProfileWindow* window = strata::BeginProfileWindow(kind);
  if (window == nullptr) return errno;
  timespec left{static_cast<time_t>(milliseconds / 1000),
                static_cast<long>(milliseconds % 1000) * 1'000'000};
  while (strata::raw::Nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  return strata::EndProfileWindow(window, fd);
}
