// Domains as the process knows them. See hot_domains.h.
#include "regions/hot_domains.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/message.h"
#include "malloc/background.h"
#include "malloc/background_duties.h"
#include "malloc/background_thread.h"
#include "malloc/region_calls.h"
#include "os/confinement.h"
#include "os/system_kernel.h"
#include "regions/hot_kernel.h"
#include "regions/stale_use.h"
#include "strata/raw_io.h"

namespace strata {

std::atomic<bool> g_hot_thread_wanted{false};
namespace {
constinit STRATA_LARGE BlockDirectory::Top g_directory;  // apart, for it is zero
}  // namespace
constinit HotDomains g_hot_domains{g_directory};

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

constinit Lock g_lock{LockRank::kControl};
std::atomic<HotRecord*> g_first{nullptr};  // only grows, under g_lock
std::atomic<uint32_t> g_change{0};         // a futex: a domain began or ended

HotRecord* First() { return g_first.load(std::memory_order_acquire); }

// The domain that the thread is at: it stays while this names it. And which thread that is.
HotRecord* g_busy STRATA_GUARDED_BY(g_lock) = nullptr;
void* g_busy_thread STRATA_GUARDED_BY(g_lock) = nullptr;

// Null: no domain wants the thread.
HotRecord* FirstDue() STRATA_REQUIRES(g_lock) {
  HotRecord* best = nullptr;
  for (HotRecord* d = First(); d != nullptr; d = d->next) {
    if (d->HasEnded() || !d->threaded) continue;
    if (best == nullptr || d->collector.due_ns() < best->collector.due_ns()) best = d;
  }
  return best;
}

void Wait(uint32_t seen, uint64_t ns) {
  const timespec wait{static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
  raw::Call(SYS_futex, raw::Word(&g_change), FUTEX_WAIT_PRIVATE, seen, raw::Word(&wait));
}

void Changed() {
  g_change.fetch_add(1, std::memory_order_release);
  raw::Call(SYS_futex, raw::Word(&g_change), FUTEX_WAKE_PRIVATE, INT32_MAX);
}

// True: it went on, or slept; false: no domain wants the thread.
bool Step(const HotMemory& memory) {
  const uint32_t seen = g_change.load(std::memory_order_acquire);
  g_lock.Acquire();
  HotRecord* d = FirstDue();
  if (d == nullptr) {
    SecondThread::Ended();
    g_lock.Release();
    return false;
  }
  const uint64_t now = memory.now_ns(memory.context);
  const uint64_t due = d->collector.due_ns();
  if (due <= now) {
    g_busy = d;
    g_busy_thread = __builtin_thread_pointer();
  }
  g_lock.Release();
  if (due > now) {
    // As often as the background thread it looks at the process.
    if (!SecondThread::MustEnd()) Wait(seen, std::min(due - now, kSecondNs));
    return true;
  }
  // Another thread may be at it: then it has set, or will set, when the next is due.
  const bool done = d->collector.Round(RoundBounds::kBounded);
  g_lock.Acquire();
  g_busy = nullptr;
  g_lock.Release();
  Changed();
  if (!done) memory.pause_ns(memory.context, kSecondNs / 100);
  return true;
}

// Ends when no domain wants it, when somebody wants it away, or when the process is no longer what
// it was: but for the first, the next operation starts another.
void RunThread() {
  SecondThread::Begin();
  const HotMemory& memory = g_hot_domains.pool.memory();
  const ProcessStatus status = ReadProcessStatus("/proc/self/status");
  // Without /proc it would not see the program change, nor end.
  if (!status.readable) return SecondThread::Ended();
  const BackgroundSelf self(status);
  for (uint64_t next_look = 0; !SecondThread::MustEnd();) {
    const uint64_t now = memory.now_ns(memory.context);
    if (now >= next_look) {
      if (!self.MayGoOn()) break;
      next_look = now + kSecondNs;
    }
    if (!Step(memory)) return;
  }
  SecondThread::Ended();
  // The order of the two is the other way round in StartHotThread: either that sees the thread
  // gone, or the next operation starts it.
  g_hot_thread_wanted.store(true, std::memory_order_seq_cst);
}

// Objects move all the same.
void SayWithoutHugepages() {
  static std::atomic<bool> said{false};
  if (!HugepagesAreOff() || said.exchange(true, std::memory_order_relaxed)) return;
  Message()
      .Text(
          "transparent hugepages are off (never): hot_ptr objects that are used lie on few pages, "
          "but on small ones")
      .Send();
}

// Of those whose records serve another domain by now.
constinit HotnessStats g_ended STRATA_GUARDED_BY(g_lock);

// What happened stays told when the domain is gone: totals only grow.
void AddTotals(const CollectorCounts& c, HotnessStats& sum) {
  const auto read = [](const auto& n) { return n.load(std::memory_order_relaxed); };
  sum.rounds += read(c.rounds);
  sum.moves += read(c.moves);
  sum.moved_bytes += read(c.moved_bytes);
  sum.promotions += read(c.promotions);
  sum.demotions += read(c.demotions);
  sum.aborted_in_use += read(c.in_use);
  sum.aborted_used += read(c.used);
  sum.aborted_no_memory += read(c.no_memory);
  sum.aborted_near_limit += read(c.near_limit);
  sum.epochs_given_up += read(c.epochs_given_up);
  sum.paged_out_bytes += read(c.paged_out_bytes);
  sum.collector_ns += read(c.cpu_ns);
}

// By their checks.
constinit SpareRecords g_spares[3] STRATA_GUARDED_BY(g_lock);

SpareRecords& SparesWith(std::optional<CheckBounds> checks) STRATA_REQUIRES(g_lock) {
  return g_spares[checks ? 1 + static_cast<int>(*checks) : 0];
}

// A program may have a domain for each of its users: what one took serves the next.
HotRecord* Spare(const CollectorOptions& options, std::optional<CheckBounds> checks)
    STRATA_REQUIRES(g_lock) {
  auto* d = static_cast<HotRecord*>(SparesWith(checks).Take());
  if (d == nullptr) return nullptr;
  AddTotals(d->collector.counts(), g_ended);
  d->domain.Renew(checks);
  ObjectCollector::Renew(d->collector, options);
  return d;
}

// Null: no memory.
HotRecord* Fresh(const CollectorOptions& options, std::optional<CheckBounds> checks)
    STRATA_REQUIRES(g_lock) {
  MetadataArena& arena = g_hot_domains.arena;
  void* memory = arena.Allocate(sizeof(HotRecord), alignof(HotRecord));
  auto* slots = static_cast<ScopeSlot*>(
      arena.Allocate(sizeof(ScopeSlot) * ScopeTable::kSlots, alignof(ScopeSlot)));
  if (memory == nullptr || slots == nullptr) return nullptr;
  auto* d = ::new (memory) HotRecord(g_hot_domains.pool, slots, options);
  d->checks = checks;
  if (checks) d->domain.CheckUses(*checks);
  d->next = g_first.load(std::memory_order_relaxed);
  g_first.store(d, std::memory_order_release);
  return d;
}

}  // namespace

strata_hot_domain* MakeHotDomain(const CollectorOptions& options, CollectedBy who,
                                 std::optional<CheckBounds> checks) {
  strata_hot_domain* handle = nullptr;
  {
    LockHolder hold(g_lock);
    HotRecord* d = Spare(options, checks);
    if (d == nullptr) d = Fresh(options, checks);
    if (d == nullptr) {
      errno = ENOMEM;
      return nullptr;
    }
    d->threaded = who == CollectedBy::kThread;
    handle = d->Handle();
  }
  if (checks) InstallStaleUseHandler();
  if (who == CollectedBy::kThread) StartHotThread();
  SayWithoutHugepages();
  return handle;
}

namespace {

// The process's thread leaves the domain alone once this returns; but if that thread itself calls,
// from what destroys an object, it can't wait for itself, and finds that object in the domain.
void TakeFromThread(HotRecord* d) {
  for (;;) {
    const uint32_t seen = g_change.load(std::memory_order_acquire);
    g_lock.Acquire();
    d->threaded = false;
    const bool busy = g_busy == d && g_busy_thread != __builtin_thread_pointer();
    g_lock.Release();
    if (!busy) return;
    Wait(seen, kSecondNs);
  }
}

}  // namespace

// Without the thread: what it was about to move or to destroy would look as if it were to stay.
std::optional<size_t> EndHotDomain(strata_hot_domain* handle, ObjectPlace* first) {
  HotRecord* const d = &HotRecord::Of(handle);
  bool threaded = false;
  {
    LockHolder hold(g_lock);
    if (!d->Serves(handle)) return std::nullopt;
    d->state = DomainRecord::State::kEnds;
    threaded = d->threaded;
  }
  TakeFromThread(d);
  for (int i = 0; i < 4; ++i) d->domain.FreeRetired();
  d->domain.EndQuarantine();
  const size_t live = d->domain.LiveObjects(first);
  {
    LockHolder hold(g_lock);
    d->state = live == 0 ? DomainRecord::State::kGone : DomainRecord::State::kLives;
    d->threaded = threaded;
  }
  if (live == 0) {
    d->collector.GiveBackAll();
    LockHolder hold(g_lock);
    SparesWith(d->checks).Put(d);
  }
  if (live != 0 && threaded) {
    StartHotThread();
  } else {
    Changed();
  }
  return live;
}

void StartHotThread() {
  g_hot_thread_wanted.exchange(false, std::memory_order_seq_cst);
  if (SecondThread::Runs()) return Changed();
  if (BackgroundThreadIsAway()) return g_hot_thread_wanted.store(true, std::memory_order_relaxed);
  FindInheritedConfinement();
  if (!MayStartThread(ThreadFor::kAsked)) return;
  static std::atomic<int> tries{0};
  if (SecondThread::Start(RunThread, Changed)) return tries.store(0, std::memory_order_relaxed);
  // The background thread is just being started, or somebody wants both away: the next operation
  // tries again, some times. Without it nothing moves but by strata_hot_collect.
  if (tries.fetch_add(1, std::memory_order_relaxed) < 100)
    g_hot_thread_wanted.store(true, std::memory_order_relaxed);
}

// Without the lock, from a signal handler.
const char* StaleTypeAt(uintptr_t address) STRATA_NO_TSA {
  for (HotRecord* d = First(); d != nullptr; d = d->next) {
    if (const char* type = d->domain.StaleTypeAt(address)) return type;
  }
  return nullptr;
}

namespace {

void AddState(HotRecord& d, HotnessStats& sum) {
  const CollectorCounts& c = d.collector.counts();
  HotnessStats::Heap* const heaps[kHotHeaps] = {&sum.fresh, &sum.hot, &sum.cold};
  for (int h = 0; h < kHotHeaps; ++h) {
    const HotDomain::Held held = d.domain.HeldIn(static_cast<HotHeap>(h));
    heaps[h]->objects += held.objects;
    heaps[h]->bytes += held.bytes;
  }
  const double utilization = c.utilization.load(std::memory_order_relaxed);
  sum.cold_after = std::max<uint64_t>(sum.cold_after, c.cold_after.load(std::memory_order_relaxed));
  sum.promotion_rate = std::max(sum.promotion_rate, c.rate.load(std::memory_order_relaxed));
  sum.utilization = sum.domains == 0 ? utilization : std::min(sum.utilization, utilization);
  ++sum.domains;
}

}  // namespace

void CollectHotness(HotnessStats& out) {
  LockHolder hold(g_lock);
  out = g_ended;
  for (HotRecord* d = First(); d != nullptr; d = d->next) {
    AddTotals(d->collector.counts(), out);
    if (!d->HasEnded()) AddState(*d, out);
  }
}

namespace {

// All but g_lock, in the order in which they may be taken. Records are never unmapped, and may be
// looked at without it.
template <class F>
void VisitDomainLocks(F f) STRATA_NO_TSA {
  for (HotRecord* d = First(); d != nullptr; d = d->next) {
    f(d->collector.step_lock());
    f(d->domain.lock());
    if (Lock* l = d->domain.checks_lock()) f(*l);
    for (int h = 0; h < kHotHeaps; ++h)
      d->domain.ForEachShelf(static_cast<HotHeap>(h),
                             [&f](HotShelf& s) STRATA_NO_TSA { f(s.lock); });
  }
  f(g_hot_domains.pool.lock());
  f(g_hot_domains.arena.lock());
}

}  // namespace

bool HoldsListOfDomains() { return g_lock.HeldByThisThread(); }

bool HoldsDomainLock() {
  bool holds = HoldsListOfDomains();
  VisitDomainLocks([&holds](Lock& l) { holds |= l.HeldByThisThread(); });
  return holds;
}

// Around a fork. The collector is between two steps then, and no list is half changed.
bool LockHotDomains(AtHeldLock at) STRATA_NO_TSA {
  bool all = g_lock.AcquireForFork(Lock::ForkWait::kAMoment);
  VisitDomainLocks([&](Lock& l) STRATA_NO_TSA {
    if (all || at == AtHeldLock::kPassBy) all &= l.AcquireForFork(Lock::ForkWait::kAMoment);
  });
  return all;
}

void UnlockHotDomains() STRATA_NO_TSA {
  VisitDomainLocks([](Lock& l) STRATA_NO_TSA { l.ReleaseAfterFork(); });
  g_lock.ReleaseAfterFork();
}

void UnlockHotDomainsInForkedChild() STRATA_NO_TSA {
  VisitDomainLocks([](Lock& l) STRATA_NO_TSA { l.ReleaseInForkedChild(); });
  g_lock.ReleaseInForkedChild();
}

void RenewHotDomainsInChild() STRATA_NO_TSA {
  bool threaded = false;
  // What an object's end forks in may be the domains' thread, which goes on in the child.
  const bool is_thread = g_busy != nullptr && g_busy_thread == __builtin_thread_pointer();
  if (!is_thread) g_busy = nullptr;
  for (HotRecord* d = First(); d != nullptr; d = d->next) {
    if (d->HasEnded()) continue;
    d->state = DomainRecord::State::kLives;  // who was ending it is not here
    d->domain.RenewInChild();
    d->collector.RenewInChild();
    threaded |= d->threaded;
  }
  ForgetWatchInChild();
  if (is_thread) {
    SecondThread::GoOnInChild();
  } else {
    SecondThread::ForgetInChild();
  }
  g_hot_thread_wanted.store(threaded && !is_thread, std::memory_order_relaxed);
}

}  // namespace strata
