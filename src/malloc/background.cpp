// When the background work is done, and by whom. See background.h.
#include "malloc/background.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "malloc/background_thread.h"
#include "malloc/lifetimes.h"
#include "malloc/limits.h"
#include "malloc/live_options.h"
#include "malloc/main_exit.h"
#include "malloc/watched_calls.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "os/side_stack.h"
#include "profile/stack_walk.h"
#include "strata/raw_io.h"
#include "strata/single_threaded.h"

namespace strata {

namespace background_internal {
constinit std::atomic<bool> g_looks{true};
}  // namespace background_internal

namespace {

using background_internal::g_looks;

constexpr uint64_t kSecondNs = 1'000'000'000;
// Below 8 MiB in use nothing is worth giving back, and a small process is left as it is.
constexpr Pages kWorthReleasing{1024};
constexpr uint64_t kLivesForNs = 50'000'000;
constexpr uint32_t kIdleDrainTicks = 2;
constexpr uint32_t kCallsBetweenTries = 10'000;

std::atomic<uint32_t> g_calls_to_skip{0};
std::atomic<uint64_t> g_not_before_ns{0};  // no thread starts; after one ended
std::atomic<uint64_t> g_forked_ns{0};      // 0: the process was not forked by another that had this
std::atomic<uint64_t> g_next_round_ns{0};  // by the program's calls
std::atomic<bool> g_in_round{false};       // the same
bool g_topology_set = false;               // within a round
std::atomic<uint64_t> g_ticks{0};
std::atomic<uint64_t> g_released{0};

uint64_t CoarseNowNs() { return TheRuntime().kernel.CoarseNowNs(); }

// By the clocks of the process and, for the library's own share, of the thread that does a round.
// One round at a time.
class CpuMeter {
 public:
  void BeginRound() {
    if (MayCallAnything()) round_began_ns_ = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  }
  void EndRound() {
    if (round_began_ns_ != 0) own_ns_ += ReadClock(CLOCK_THREAD_CPUTIME_ID) - round_began_ns_;
    round_began_ns_ = 0;
  }
  // At the last look.
  uint64_t used_ns() const { return used_ns_; }

  // Of the program, since the last call.
  CpuUse Look() {
    if (!MayCallAnything()) return CpuUse::kLittle;
    const uint64_t now = ReadClock(CLOCK_MONOTONIC);
    const uint64_t program = ReadClock(CLOCK_PROCESS_CPUTIME_ID) - own_ns_;
    const uint64_t used = program - last_program_ns_, passed = now - last_ns_;
    last_program_ns_ = program;
    last_ns_ = now;
    used_ns_ = used;
    return used < passed / kRestingPart ? CpuUse::kLittle : CpuUse::kMuch;
  }

 private:
  static constexpr uint64_t kRestingPart = 20;  // health checks and timers stay below 5 % of a CPU

  uint64_t round_began_ns_ = 0, own_ns_ = 0, last_program_ns_ = 0, last_ns_ = 0, used_ns_ = 0;
};
constinit CpuMeter g_cpu;

// Of a tick, for rebuilding hugepages: a quarter of what the program computes, whose page faults
// wait for each call; and half of it for touching frames ahead, which costs another CPU alone. No
// more than both: who wants this thread away waits as long.
constexpr uint64_t kLeastRebuildNs = 10'000'000, kMostRebuildNs = 300'000'000,
                   kMostTouchNs = 300'000'000, kLookNs = 10'000'000;
// In parts, of which none is worth a wake-up for less: a program that hardly works is left alone.
constexpr uint64_t kMostRebuildParts = 50, kLeastPartNs = 5'000'000;
RebuildTime RebuildTimeFor(uint64_t used_ns) {
  const uint64_t ns = std::clamp(used_ns / 4, kLeastRebuildNs, kMostRebuildNs);
  if (!BackgroundThreadRuns()) return {ns / 2, ns / 2};  // the program's own thread does both
  const uint64_t look_ns = TheRuntime().options.sparse_blocks ? kLookNs : 0;
  const uint64_t parts = std::min(ns / kLeastPartNs, kMostRebuildParts);
  return {ns, std::min(2 * ns, kMostTouchNs), look_ns, static_cast<uint32_t>(parts)};
}

void Round() {
  Runtime& r = TheRuntime();
  g_cpu.BeginRound();
  if (!g_topology_set && MayOpenFiles())
    g_topology_set = r.front().transfer.SetTopology(TopologyOf(r.options.cache_domains));
  r.front().Tick(kIdleDrainTicks);
  const CpuUse use = g_cpu.Look();
  r.heap.page_heap().SetRebuildTime(RebuildTimeFor(g_cpu.used_ns()));
  const HeapTick tick = r.heap.Tick(ReleaseWanted() ? Giving::kOn : Giving::kOff, use);
  LimitsTick();
  g_cpu.EndRound();
  g_ticks.store(g_ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  g_released.store(g_released.load(std::memory_order_relaxed) + tick.released_bytes,
                   std::memory_order_relaxed);
}

// A child is born as large as its parent, and most become another program at once.
bool LivesOn() {
  const uint64_t forked = g_forked_ns.load(std::memory_order_relaxed);
  return forked == 0 || CoarseNowNs() - forked >= kLivesForNs;
}

// What a thread is for: memory to give back, or somebody who asked.
bool IsWorthAThread(Runtime& r) {
  const Options& o = r.options;
  if (o.control == ControlChoice::kAlways || StatsIntervalSeconds() != 0 || o.profile_signal != 0 ||
      o.profile_interval_s != 0)
    return true;
  return r.heap.page_heap().used_lately() >= kWorthReleasing && LivesOn();
}

void StartThread() {
  // Set before: the thread may end, and set it again, before this goes on.
  g_looks.store(false, std::memory_order_relaxed);
  PrepareWatchedCalls();
  if (StartBackgroundThread()) return;
  // Asked while the program changes what it may do, as by what initgroups allocates.
  if (BackgroundThreadIsAway()) return BackgroundEnded(kSecondNs);
  // No room for a thread now; later there may be.
  g_calls_to_skip.store(kCallsBetweenTries, std::memory_order_relaxed);
  g_looks.store(true, std::memory_order_relaxed);
}

// True once a second, for one caller.
bool RoundIsDue() {
  const uint64_t now = CoarseNowNs();
  uint64_t due = g_next_round_ns.load(std::memory_order_relaxed);
  return now >= due &&
         g_next_round_ns.compare_exchange_strong(due, now + kSecondNs, std::memory_order_relaxed);
}

void RoundByCaller() {
  // acquire, release: what one caller's round wrote is seen by the next one's. A handler that
  // interrupts a round leaves it alone.
  if (!RoundIsDue() || g_in_round.exchange(true, std::memory_order_acquire)) return;
  if (!BackgroundThreadRuns()) {
    t_state.at_work = 1;
    OnSideStack(Round);
    t_state.at_work = 0;
  }
  g_in_round.store(false, std::memory_order_release);
}

bool SkipsThisCall() {
  const uint32_t skip = g_calls_to_skip.load(std::memory_order_relaxed);
  if (skip == 0) return CoarseNowNs() < g_not_before_ns.load(std::memory_order_relaxed);
  g_calls_to_skip.store(skip - 1, std::memory_order_relaxed);
  return true;
}

}  // namespace

bool MayStartThread(ThreadFor whom) {
  if (MainThreadLeft()) return false;
  // Linked into the program, or behind libc, the library does not see it confine itself, and asks.
  if (MayCallAnything() && !SeesWhatTheProgramGivesUp() &&
      (raw::Call(SYS_prctl, PR_GET_SECCOMP) != 0 ||
       (!InheritedNoNewPrivs() && raw::Call(SYS_prctl, PR_GET_NO_NEW_PRIVS) != 0)))
    NoteOwnConfinement(Confinement::kNoNewPrivs);
  switch (CurrentConfinement()) {
    case Confinement::kNone:
      return true;
    case Confinement::kInherited:
      // If it has any the filter allows threads.
      return whom == ThreadFor::kAsked || HasSurelyThreads();
    case Confinement::kNoNewPrivs:
    case Confinement::kOwnFilter:
      break;
  }
  return false;
}

AfterTick BackgroundTick() {
  Round();
  // So that samples find their stacks faster. The first time costs tens of milliseconds, which a
  // program that ends within the first second, such as a compiler, is spared.
  if (TheRuntime().sampler.rate().interval != 0 && MayCallAnything()) KeepUnwindTables();
  auto& pages = TheRuntime().heap.page_heap();
  return {pages.GrowsFast(), pages.Rebuilds()};
}

bool BackgroundRebuild() {
  g_cpu.BeginRound();
  const bool more = TheRuntime().heap.page_heap().RebuildPart();
  g_cpu.EndRound();
  return more;
}

bool HasBackgroundWork() {
  Runtime& r = TheRuntime();
  return r.options.background && IsWorthAThread(r);
}

void LookAtBackground() {
  Runtime& r = TheRuntime();
  if (t_state.starts_no_thread || t_state.at_work || t_state.vforked) return;
  // Release is only one of the duties (limits, cache sizes, unwind tables), and settings may ask
  // for others later: "never" is for a process that was started without.
  if (!r.options.background) return g_looks.store(false, std::memory_order_relaxed);
  if (!IsWorthAThread(r)) return;
  FindInheritedConfinement();
  const bool skips = SkipsThisCall();
  if (!skips && MayStartThread(ThreadFor::kGuest)) {
    // What libc allocates for the thread is not the program's: it is no sample.
    t_state.at_work = 1;
    OnSideStack(StartThread);
    t_state.at_work = 0;
    if (BackgroundThreadRuns()) return;
  }
  RoundByCaller();
}

void BackgroundEnded(uint64_t rest_ns) {
  g_not_before_ns.store(CoarseNowNs() + rest_ns, std::memory_order_relaxed);
  g_looks.store(true, std::memory_order_relaxed);
}

BackgroundStats ReadBackgroundStats() {
  return {BackgroundThreadRuns(), g_ticks.load(std::memory_order_relaxed),
          g_released.load(std::memory_order_relaxed)};
}

void BackgroundForgetInChild() {
  ForgetLearningInChild();
  ForgetBackgroundThread();
  g_cpu = {};  // a child's clocks begin anew
  g_forked_ns.store(CoarseNowNs(), std::memory_order_relaxed);
  g_in_round.store(t_state.at_work != 0, std::memory_order_relaxed);
  g_looks.store(TheRuntime().options.background, std::memory_order_relaxed);
}

}  // namespace strata
