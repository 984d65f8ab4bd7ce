// The rounds of the background thread, and what it serves between them: the control socket and the
// signal that asks for a profile. See malloc/background_duties.h. Sits in control.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

#include "base/error_text.h"
#include "base/message.h"
#include "control/server.h"
#include "malloc/background.h"
#include "malloc/background_duties.h"
#include "malloc/lifetimes.h"
#include "malloc/live_options.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/own_descriptors.h"
#include "report/profile_output.h"
#include "report/stats_output.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kStepNs = 20'000'000;  // between two parts of what a round leaves to do

class Duties {
 public:
  void Begin() {
    own_table_ = MayCallAnything() && WantsDescriptors() && TakeDescriptors();
    profiles_.Open(own_table_ ? DescriptorTable::kOwn : DescriptorTable::kProgram);
    // A heap for which the first thread is started grows, often fast.
    after_ = {ReadBackgroundStats().ticks == 0, false};
  }

  void End() {
    BackgroundSelf::WakeBy(-1);
    ForgetProfileThread();
    if (learns_) TheLearner().Rest();
    if (own_table_) raw::Call(SYS_close_range, 0, UINT32_MAX, 0);
  }

  // Until `until`, or until the thread is to end; answers clients meanwhile.
  void ServeUntil(uint64_t until) {
    for (uint64_t now = BackgroundSelf::NowNs(); now < until && !BackgroundSelf::MustEnd();
         now = BackgroundSelf::NowNs()) {
      const uint64_t deadline = server_.deadline_ns();
      uint64_t next = deadline < until ? deadline : until;
      if (now >= next_step_ns_) Step(now);
      if ((after_.populates || after_.rebuilds) && next > next_step_ns_) next = next_step_ns_;
      if (learns_ && now >= next_learn_ns_)
        next_learn_ns_ = TheLearner().Look(now, OpensFiles{own_table_});
      if (learns_ && next > next_learn_ns_) next = next_learn_ns_;
      const uint64_t left = next > now ? next - now : 0;
      if (own_table_) {
        Poll(left);
      } else {
        BackgroundSelf::Sleep(left);
      }
      profiles_.WriteIfAsked();
    }
  }

  void Round() {
    server_.Retry();
    profiles_.Retry();
    profiles_.WriteIfAsked();
    after_ = BackgroundTick();
    next_step_ns_ = BackgroundSelf::NowNs() + kStepNs;
    const uint32_t interval = StatsIntervalSeconds();
    if (interval != 0 && ++since_stats_ >= interval) {
      since_stats_ = 0;
      WriteStatsFiles();
    }
    const uint32_t profile_interval = TheRuntime().options.profile_interval_s;
    if (profile_interval != 0 && ++since_profile_ >= profile_interval) {
      since_profile_ = 0;
      RewriteProfile();
    }
  }

 private:
  void Step(uint64_t now) {
    if (after_.populates) after_.populates = TheRuntime().heap.page_heap().PopulateAhead();
    if (after_.rebuilds) after_.rebuilds = BackgroundRebuild();
    next_step_ns_ = now + kStepNs;
  }
  static bool WantsDescriptors() {
    const Options& o = TheRuntime().options;
    return o.control != ControlChoice::kOff || o.profile_signal != 0 ||
           o.lifetimes == LifetimeChoice::kModel;
  }

  // Without a table of its own the thread opens nothing that stays open: its descriptors would be
  // among the program's.
  bool TakeDescriptors() {
    const ControlChoice choice = TheRuntime().options.control;
    const char* what = "a descriptor table of its own";
    if (TakeOwnDescriptors() && OpenPipe()) {
      if (choice == ControlChoice::kOff || server_.Open()) return true;
      what = server_.refused();
    }
    const int why = errno;
    if (TheRuntime().options.verbose || choice == ControlChoice::kAlways) {
      Message()
          .Text("control is off: the kernel refused ")
          .Text(what)
          .Text(" (")
          .Text(ErrorText(why))
          .Text(")")
          .Warn();
    }
    return wake_ >= 0;
  }

  // By which another thread ends the sleep: it opens the writing end through /proc.
  bool OpenPipe() {
    int ends[2];
    if (raw::Answer(raw::Call(SYS_pipe2, raw::Word(ends), O_CLOEXEC | O_NONBLOCK)) != 0)
      return false;
    wake_ = ends[0];
    BackgroundSelf::WakeBy(ends[1]);
    return true;
  }

  void Poll(uint64_t left) {
    const timespec wait = {static_cast<time_t>(left / kSecondNs),
                           static_cast<long>(left % kSecondNs)};
    pollfd entries[ControlServer::kPollSlots + 2];
    const size_t n = server_.FillPoll(entries);
    size_t all = n + profiles_.FillPoll(entries + n);
    entries[all++] = {wake_, POLLIN, 0};
    // Where the kernel refuses to poll (no descriptors allowed any more), nobody is served and the
    // rounds go on.
    if (raw::Ppoll(entries, all, &wait) < 0 && errno != EINTR) {
      for (size_t i = 0; i < all; ++i) entries[i].revents = 0;
      BackgroundSelf::Sleep(left);
    }
    if (!BackgroundSelf::MustEnd()) server_.Handle(entries, n, BackgroundSelf::NowNs());
  }

  ControlServer server_;
  ProfileSignal profiles_;
  int wake_ = -1;
  bool own_table_ = false;
  uint32_t since_stats_ = 0;  // rounds
  uint32_t since_profile_ = 0;
  const bool learns_ = TheRuntime().options.lifetimes != LifetimeChoice::kOff;
  uint64_t next_learn_ns_ = 0;
  AfterTick after_{};
  uint64_t next_step_ns_ = 0;
};

}  // namespace

void DoBackgroundDuties(const BackgroundSelf& self) {
  Duties duties;
  duties.Begin();
  for (uint64_t next = self.NowNs() + kSecondNs; !self.MustEnd();) {
    duties.ServeUntil(next);
    if (self.MustEnd() || !self.MayGoOn()) break;
    // After a round that took long, or a stopped process, the missed ones are not made up for.
    const uint64_t now = self.NowNs();
    next = next + kSecondNs > now ? next + kSecondNs : now + kSecondNs;
    duties.Round();
  }
  duties.End();
}

}  // namespace strata
