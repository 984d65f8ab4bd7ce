// Paying for growth. See price.h.
#include "malloc/price.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "base/errno_keeper.h"
#include "base/keyed_random.h"
#include "base/message.h"
#include "malloc/fork_handlers.h"
#include "malloc/live_options.h"
#include "malloc/release_now.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "os/scarcity.h"
#include "os/side_stack.h"
#include "price/account.h"
#include "price/fork_account.h"
#include "profile/sample_math.h"
#include "profile/stack_walk.h"
#include "strata/raw_io.h"

namespace strata {

std::atomic<size_t> price_internal::g_step{SIZE_MAX};

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kSliceNs = 100'000'000;          // between two looks of a thread that waits
constexpr uint64_t kFindsEveryNs = 5 * kSecondNs;   // the process may have been moved
constexpr uint64_t kGivesEveryNs = 5 * kSecondNs;   // free memory, before anyone pays
constexpr uint64_t kSaysEveryNs = 60 * kSecondNs;   // in the log
constexpr uint64_t kWorthSayingNs = 1 * kSecondNs;  // of waiting
constexpr double kLeastStep = 128 << 10, kMostStep = 64 << 20;  // of growth between two looks
constexpr size_t kFirstLook = 2 << 20;                          // a small program reads no file

uint64_t NowNs() { return ReadClock(CLOCK_MONOTONIC); }

// Uniform in (0, 1], another one for each process and moment.
double Chance(uint64_t now) {
  const auto thread = static_cast<uint64_t>(raw::Call(SYS_gettid));
  return static_cast<double>((KeyedRandom(now, thread).Next() >> 11) + 1) * 0x1p-53;
}

// Before a thread that grew has looked, it has no place among those who wait.
constexpr double kNoPlace = -1;

struct Verdict {
  uint64_t delay_ns = 0;
  double left = 0, limit = 0, debt = 0;
  double place = kNoPlace;
};

class Payer {
 public:
  constexpr Payer() = default;

  // What is owed before it is this thread's turn, by fresh figures. Sets when growth is looked at
  // next.
  Verdict Look(double place) STRATA_EXCLUDES(lock) {
    LockHolder hold(lock);
    const uint64_t now = NowNs();
    ProcessHeap& heap = TheRuntime().heap;
    if (!LoadOption(TheRuntime().options.price)) return {};  // switched off while somebody waited
    FindIfDue(now);
    buyer_ = {static_cast<double>(heap.page_heap().charged_bytes()), weight()};
    Supply found;
    double step = kMostStep;
    const bool all = watch_.ForEachMemory([&found, &step, buyer = buyer_](const MemorySupply& m) {
      const Supply s{static_cast<double>(m.limit), static_cast<double>(m.used), m.pressure};
      Choose(s, buyer, kMemoryTerms, found);
      step = std::min(step, StepOf(s, kMemoryTerms, kLeastStep, kMostStep));
    });
    if (all) supply_ = found;  // what could not be read, without a descriptor, forgives nothing
    growth_.Settle(supply_, buyer_, kMemoryTerms, now);
    if (place == kNoPlace) place = growth_.Place();
    if (!all) step = std::min(step, StepOf(supply_, kMemoryTerms, kLeastStep, kMostStep));
    if (DelayOf(growth_.debt()) != 0) step = 0;  // the next growth of any thread waits as well
    LookAfter(static_cast<size_t>(buyer_.holds), static_cast<size_t>(step));
    return {DelayOf(growth_.OwedUpTo(place)), std::max(supply_.limit - supply_.used, 0.0),
            supply_.limit, growth_.debt(), place};
  }

  void BeginFork() STRATA_EXCLUDES(lock) {
    LockHolder hold(lock);
    const uint64_t now = NowNs();
    forks_.Begin(now, -NaturalLog(Chance(now)));
  }
  // How long it waits still.
  uint64_t LookAtFork() STRATA_EXCLUDES(lock) {
    LockHolder hold(lock);
    const uint64_t now = NowNs();
    FindIfDue(now);
    Supply supply;
    watch_.ForEachPids([&supply](const CgroupPids& p) {
      Choose({static_cast<double>(p.limit), static_cast<double>(p.used), 0}, {0, weight()},
             kProcessTerms, supply);
    });
    return forks_.OwedNs(supply, weight(), now);
  }

  bool MayGiveBack() STRATA_EXCLUDES(lock) { return Due(&Payer::gave_back_ns_, kGivesEveryNs); }
  bool MaySay() STRATA_EXCLUDES(lock) { return Due(&Payer::said_ns_, kSaysEveryNs); }

  void Read(PriceStats& out) STRATA_EXCLUDES(lock) {
    LockHolder hold(lock);
    out.seconds_a_mib = PriceOf(supply_, buyer_, kMemoryTerms) * (1 << 20);
    out.supply = static_cast<size_t>(supply_.limit);
    out.left = static_cast<size_t>(std::max(supply_.limit - supply_.used, 0.0));
    out.pressure = supply_.pressure;
    out.debt = static_cast<size_t>(growth_.debt());
  }

  // Under the lock, so that nobody who looks meanwhile sets the watch of what was on before.
  void Set(Pricing pricing, uint32_t weight) STRATA_EXCLUDES(lock) {
    LockHolder hold(lock);
    Runtime& r = TheRuntime();
    StoreOption(r.options.weight, weight);
    StoreOption(r.options.price, pricing == Pricing::kOn);
    supply_ = {};
    growth_.Restart();
    forks_ = {};
    LookAfter(0, pricing == Pricing::kOn ? kFirstLook : SIZE_MAX);
  }

  void NoteBeginning() STRATA_EXCLUDES(lock) {
    LockHolder hold(lock);
    forks_.Begin(NowNs(), 0);
  }

  Lock lock{LockRank::kPrice};

 private:
  static void Choose(const Supply& s, const Buyer& b, const PriceTerms& t, Supply& dearest) {
    if (dearest.limit == 0 || IsDearer(s, dearest, b, t)) dearest = s;
  }

  static uint32_t weight() { return LoadOption(TheRuntime().options.weight); }

  void FindIfDue(uint64_t now) STRATA_REQUIRES(lock) {
    if (found_ns_ != 0 && now - found_ns_ < kFindsEveryNs) return;
    found_ns_ = now;
    watch_.Find();
  }

  uint64_t DelayOf(double owed) const STRATA_REQUIRES(lock) {
    return DelayNs(supply_, buyer_, kMemoryTerms, owed);
  }

  static void LookAfter(size_t holds, size_t step) {
    price_internal::g_step.store(step, std::memory_order_relaxed);
    TheRuntime().heap.page_heap().WatchGrowth(holds + step);
  }

  bool Due(uint64_t Payer::* last, uint64_t every) STRATA_EXCLUDES(lock) {
    LockHolder hold(lock);
    const uint64_t now = NowNs();
    if (this->*last != 0 && now - this->*last < every) return false;
    this->*last = now;
    return true;
  }

  ScarcityWatch watch_ STRATA_GUARDED_BY(lock);
  Supply supply_ STRATA_GUARDED_BY(lock);  // at the last look, as the next
  Buyer buyer_ STRATA_GUARDED_BY(lock);
  GrowthAccount growth_ STRATA_GUARDED_BY(lock);
  ForkAccount forks_ STRATA_GUARDED_BY(lock);
  uint64_t found_ns_ STRATA_GUARDED_BY(lock) = 0;
  uint64_t gave_back_ns_ STRATA_GUARDED_BY(lock) = 0;
  uint64_t said_ns_ STRATA_GUARDED_BY(lock) = 0;
};

constinit Payer g_payer;
std::atomic<uint32_t> g_waiting{0};
std::atomic<uint64_t> g_waits{0}, g_waited_ns{0}, g_fork_waits{0}, g_fork_waited_ns{0};
std::atomic<uint64_t> g_said_ns{0};  // of g_waited_ns, when the log was told last

// A handler must not wait for what the code that it interrupted may hold.
bool MayWait() {
  stack_t alternate{};
  if (sigaltstack(nullptr, &alternate) == 0 && (alternate.ss_flags & SS_ONSTACK) != 0) return false;
  return !InSignalHandler();
}

// A signal ends a slice early, and its handler has run; the wait goes on.
void SleepFor(uint64_t ns) {
  const timespec time{static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
  raw::Nanosleep(&time, nullptr);
}

void SayThatItWaits(const Verdict& v, uint64_t waited_ns) {
  if (!g_payer.MaySay()) return;
  g_said_ns.store(waited_ns, std::memory_order_relaxed);
  const auto mib = [](double bytes) { return static_cast<size_t>(bytes) >> 20; };
  Message()
      .Text("memory is scarce (")
      .Number(mib(v.left))
      .Text(" of ")
      .Number(mib(v.limit))
      .Text(" MiB left): this process owes for ")
      .Number(mib(v.debt))
      .Text(" MiB of growth, and waits before it grows more (STRATA_PRICE=on; see strata price)")
      .Send();
}

Verdict LookOnSideStack(double place) {
  Verdict v;
  OnSideStack([&v, place] { v = g_payer.Look(place); });
  return v;
}

// Until nothing is owed, or for as long as a payment may take.
void Wait(Verdict v, uint64_t longest_ns) {
  const uint64_t began = NowNs();
  g_waiting.fetch_add(1, std::memory_order_relaxed);
  g_waits.fetch_add(1, std::memory_order_relaxed);
  uint64_t waited = 0;
  while (v.delay_ns != 0 && waited < longest_ns) {
    SleepFor(std::min({v.delay_ns, kSliceNs, longest_ns - waited}));
    const uint64_t before = waited;
    waited = NowNs() - began;
    const uint64_t slept = waited - before;
    const uint64_t all = g_waited_ns.fetch_add(slept, std::memory_order_relaxed) + slept;
    if (all - g_said_ns.load(std::memory_order_relaxed) >= kWorthSayingNs) SayThatItWaits(v, all);
    if (!MayOpenFiles()) break;  // the program has confined itself meanwhile
    v = LookOnSideStack(v.place);
  }
  g_waiting.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

void PayForGrowth() {
  const ThreadState& t = t_state;
  if (t.vforked || t.at_work || t.starts_no_thread || !MayOpenFiles()) return;
  const ErrnoKeeper keep;
  Verdict v = LookOnSideStack(kNoPlace);
  if (v.delay_ns != 0 && g_payer.MayGiveBack()) {
    ReleaseBytes(SIZE_MAX / 2);  // what lies free here goes first
    v = LookOnSideStack(v.place);
  }
  if (v.delay_ns != 0 && MayWait()) Wait(v, kMemoryTerms.longest_ns);
}

// Not a handler that interrupted this thread in the heap: who looks at what is owed may wait for
// it.
void PayForFork() {
  if (!LoadOption(TheRuntime().options.price) || t_state.vforked || !MayOpenFiles() ||
      HoldsOwnLock())
    return;
  uint64_t delay = 0;
  const auto look = [&delay] { delay = g_payer.LookAtFork(); };
  OnSideStack([&look] {
    g_payer.BeginFork();
    look();
  });
  if (delay == 0 || !MayWait()) return;
  g_fork_waits.fetch_add(1, std::memory_order_relaxed);
  const uint64_t began = NowNs();
  uint64_t waited = 0;
  while (delay != 0 && waited < kProcessTerms.longest_ns && MayOpenFiles()) {
    SleepFor(std::min(delay, kSliceNs));
    waited = NowNs() - began;
    OnSideStack(look);
  }
  g_fork_waited_ns.fetch_add(waited, std::memory_order_relaxed);
}

void PriceTick() {
  if (LoadOption(TheRuntime().options.price) && MayOpenFiles()) LookOnSideStack(kNoPlace);
}

void SetPricing(Pricing pricing, uint32_t weight) { g_payer.Set(pricing, weight); }

void StartPricing(uint32_t weight) {
  SetPricing(Pricing::kOn, weight);
  g_payer.NoteBeginning();
}

PriceStats ReadPrice() {
  PriceStats out;
  const Options& o = TheRuntime().options;
  out.on = LoadOption(o.price);
  out.weight = LoadOption(o.weight);
  if (out.on) g_payer.Read(out);
  out.waiting = g_waiting.load(std::memory_order_relaxed);
  out.waits = g_waits.load(std::memory_order_relaxed);
  out.waited_ns = g_waited_ns.load(std::memory_order_relaxed);
  out.fork_waits = g_fork_waits.load(std::memory_order_relaxed);
  out.fork_waited_ns = g_fork_waited_ns.load(std::memory_order_relaxed);
  return out;
}

Lock& PriceLock() { return g_payer.lock; }

void ForgetWaitersInChild() { g_waiting.store(0, std::memory_order_relaxed); }

}  // namespace strata
