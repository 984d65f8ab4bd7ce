// The background thread. See background.h.
#include "malloc/background.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/message.h"
#include "malloc/control_server.h"
#include "malloc/library_thread.h"
#include "malloc/limits.h"
#include "malloc/main_exit.h"
#include "malloc/profile_api.h"
#include "malloc/profile_output.h"
#include "malloc/runtime.h"
#include "malloc/settings.h"
#include "malloc/stats_output.h"
#include "os/own_descriptors.h"
#include "profile/stack_walk.h"

namespace strata {

namespace background_internal {
constinit std::atomic<bool> g_may_start{true};
}  // namespace background_internal

namespace {

using background_internal::g_may_start;

constexpr uint64_t kSecondNs = 1'000'000'000;
// What a process must have come to before it gets a thread. Below 8 MiB in use nothing is worth
// giving back; one that can be asked questions gets its thread sooner, but a command that is over
// in a moment gets none.
constexpr Length kWorthReleasing{1024};
constexpr Length kWorthAsking{128};
constexpr uint64_t kLivesForNs = 50'000'000;
constexpr uint32_t kIdleDrainTicks = 2;

std::atomic<uint32_t> g_calls_to_skip{0};
constexpr uint32_t kCallsBetweenTries = 10'000;
// When the process first asked for a thread; in a forked child, when it was forked.
std::atomic<uint64_t> g_born_ns{0};
std::atomic<bool> g_forked{false};
std::atomic<bool> g_running{false};
std::atomic<uint64_t> g_ticks{0};
std::atomic<uint64_t> g_released{0};

uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

bool Verbose() { return TheRuntime().options.verbose; }

// Without a table of its own the thread opens nothing: its descriptors would be among the
// program's.
bool OpenControl(ControlServer& server) {
  const ControlChoice choice = TheRuntime().options.control;
  if (choice == ControlChoice::kOff) return false;
  const char* what = "a descriptor table of its own";
  if (TakeOwnDescriptors()) {
    what = "its socket";
    if (server.Open()) return true;
  }
  const int why = errno;
  if (Verbose() || choice == ControlChoice::kAlways) {
    Message()
        .Text("control is off: the kernel refused ")
        .Text(what)
        .Text(" (")
        .Text(strerrordesc_np(why))
        .Text(")")
        .Send();
  }
  return false;
}

// Sleeps until `until`, answering clients meanwhile.
void ServeUntil(ControlServer& server, ProfileSignal& profiles, uint64_t until) {
  for (uint64_t now = NowNs(); now < until; now = NowNs()) {
    const uint64_t deadline = server.deadline_ns();
    const uint64_t next = deadline < until ? deadline : until;
    const uint64_t left = next > now ? next - now : 0;
    const timespec wait{static_cast<time_t>(left / kSecondNs), static_cast<long>(left % kSecondNs)};
    pollfd entries[ControlServer::kPollSlots + 1];
    const size_t n = server.FillPoll(entries);
    const size_t with_signal = n + profiles.FillPoll(entries + n);
    // Where the kernel refuses to poll (no descriptors allowed any more, a sandbox), nobody is
    // served and the ticks go on.
    if (ppoll(entries, with_signal, &wait, nullptr) < 0 && errno != EINTR) {
      for (size_t i = 0; i < with_signal; ++i) entries[i].revents = 0;
      nanosleep(&wait, nullptr);
    }
    server.Handle(entries, n, NowNs());
    profiles.WriteIfAsked();
  }
}

void* Run(void*) {
  ControlServer server;
  ProfileSignal profiles;
  profiles.Open(OpenControl(server));
  uint64_t since_stats = 0;
  uint64_t next = NowNs() + kSecondNs;
  while (true) {
    ServeUntil(server, profiles, next);
    // After a round that took long, or a stopped process, the missed ones are not made up for.
    const uint64_t now = NowNs();
    next = next + kSecondNs > now ? next + kSecondNs : now + kSecondNs;
    server.Retry();
    profiles.Retry();
    profiles.WriteIfAsked();
    BackgroundTick();
    const uint32_t interval = StatsIntervalSeconds();
    if (interval != 0 && ++since_stats >= interval) {
      since_stats = 0;
      WriteStatsFiles();
    }
  }
}

}  // namespace

void BackgroundTick() {
  Runtime& r = TheRuntime();
  if (g_ticks.load(std::memory_order_relaxed) == 0)
    r.transfer.SetTopology(TopologyOf(r.options.cache_domains));
  if (r.per_cpu) r.cpu.Tick(kIdleDrainTicks);
  r.transfer.Tick();
  const HeapTick tick = r.heap.Tick(ReleaseWanted());
  LimitsTick();
  // For the stacks of samples. The first time costs tens of milliseconds, which a program that ends
  // within the first second, such as a compiler, is spared.
  if (r.sampler.rate().interval != 0) KeepUnwindTables();
  g_ticks.store(g_ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  g_released.store(g_released.load(std::memory_order_relaxed) + tick.released_bytes,
                   std::memory_order_relaxed);
}

namespace {

enum class Start : uint8_t { kNever, kNotYet, kNow };

bool HasLived() {
  const uint64_t now = NowNs();
  uint64_t born = 0;
  if (g_born_ns.compare_exchange_strong(born, now, std::memory_order_relaxed)) born = now;
  return now - born >= kLivesForNs;
}

// Release is only one of the thread's duties (limits, cache sizes, unwind tables), and settings may
// ask for others later: "never" is for a process that was started without a thread.
Start WhenToStart(Runtime& r) {
  const Options& o = r.options;
  if (!o.background) return Start::kNever;
  if (o.control == ControlChoice::kAlways || StatsIntervalSeconds() != 0 || o.profile_signal != 0)
    return Start::kNow;
  const bool asked = o.control != ControlChoice::kOff;
  const bool large = r.heap.page_heap().used() >= (asked ? kWorthAsking : kWorthReleasing);
  if (!large && !asked) return Start::kNotYet;
  // A child is born as large as its parent, and most become another program at once.
  if (large && !g_forked.load(std::memory_order_relaxed)) return Start::kNow;
  return HasLived() ? Start::kNow : Start::kNotYet;
}

}  // namespace

void StartBackgroundSlow() {
  if (t_state.starts_no_thread) return;
  const Start when = WhenToStart(TheRuntime());
  if (when == Start::kNever) g_may_start.store(false, std::memory_order_relaxed);
  if (when != Start::kNow) return;
  const uint32_t skip = g_calls_to_skip.load(std::memory_order_relaxed);
  if (skip != 0) return g_calls_to_skip.store(skip - 1, std::memory_order_relaxed);
  if (!g_may_start.exchange(false, std::memory_order_relaxed)) return;
  const bool made = StartLibraryThread("strata", Run);
  g_running.store(made, std::memory_order_relaxed);
  if (made) return StartMainExitWatcherIfNeeded();
  // No room for a thread now; later there may be.
  g_calls_to_skip.store(kCallsBetweenTries, std::memory_order_relaxed);
  g_may_start.store(true, std::memory_order_relaxed);
}

BackgroundStats ReadBackgroundStats() {
  return {g_running.load(std::memory_order_relaxed), g_ticks.load(std::memory_order_relaxed),
          g_released.load(std::memory_order_relaxed)};
}

void BackgroundForgetInChild() {
  g_running.store(false, std::memory_order_relaxed);
  g_born_ns.store(NowNs(), std::memory_order_relaxed);
  g_forked.store(true, std::memory_order_relaxed);
  g_may_start.store(true, std::memory_order_relaxed);
}

}  // namespace strata
