// Which blocks are guarded, and what becomes of them. See guard.h.
#include "malloc/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/errno_keeper.h"
#include "malloc/blocks.h"
#include "malloc/error_report.h"
#include "malloc/fast_path.h"
#include "malloc/own_process.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/side_stack.h"
#include "profile/stack_walk.h"

namespace strata {

namespace guard_internal {
constinit ProcessGuards g_pool;
constinit uint32_t g_every = 0;
}  // namespace guard_internal

uintptr_t GuardPages::Reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(p);
}

bool GuardPages::Open(uintptr_t at, size_t bytes) {
  return mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE) == 0;
}

// Its memory goes back: most slots hold freed blocks, and nobody reads those, except a program that
// goes on after an error. Under a filter that may forbid it the page stays open: the block is free
// all the same.
bool GuardPages::Close(uintptr_t at, size_t bytes) {
  if (!MayOpenFiles()) return false;
  void* page = reinterpret_cast<void*>(at);
  return mprotect(page, bytes, PROT_NONE) == 0 &&
         TheRuntime().options.on_error != OnError::kIgnore &&
         madvise(page, bytes, MADV_DONTNEED) == 0;
}

namespace {

using guard_internal::g_every;

// Pool and records together take less than a MiB, addresses included.
constexpr size_t kFewSlots = 64;
// Somebody is looking for an error.
constexpr size_t kManySlots = 4096;
constexpr uint32_t kManyUpTo = 1000;
// Three system calls, a fault and two stack walks are some microseconds: at the default rate never
// more often than makes a thousandth of a CPU.
constexpr uint64_t kLeastGapNs = 5'000'000;

enum class PoolState : uint8_t { kNone, kMaking, kReady, kRefused };

std::atomic<PoolState> g_state{PoolState::kNone};
std::atomic<int64_t> g_left{0};  // allocations up to the next guarded one
std::atomic<uint64_t> g_random{0};
std::atomic<uint64_t> g_not_before{0};
bool g_by_default = false;

// splitmix64 of a counter.
uint64_t Random() {
  uint64_t x = g_random.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// From 1 to twice the mean, all alike.
int64_t Draw() {
  return g_every == 1 ? 1 : static_cast<int64_t>(Random() % (2 * uint64_t{g_every} - 1)) + 1;
}

bool MayGuard() {
  const ThreadState& t = t_state;
  FindInheritedConfinement();
  return !t.at_work && !t.vforked && MayOpenFiles() && MaySetSignalMask();
}

bool PoolIsReady(Runtime& r) {
  PoolState s = g_state.load(std::memory_order_acquire);
  if (STRATA_LIKELY(s != PoolState::kNone)) return s == PoolState::kReady;
  if (!g_state.compare_exchange_strong(s, PoolState::kMaking, std::memory_order_acquire))
    return false;
  const size_t slots = g_every <= kManyUpTo ? kManySlots : kFewSlots;
  const bool made = Guards().Init(r.sample_arena, slots);
  if (made) InstallGuardHandler();
  g_state.store(made ? PoolState::kReady : PoolState::kRefused, std::memory_order_release);
  return made;
}

// One of so many bytes ends a stretch.
int64_t AllocationsIn(size_t stretch, size_t size) {
  if (size > kMaxClassSize) return 1;
  const size_t n = stretch / (size < 16 ? 16 : size);
  return n == 0 ? 1 : static_cast<int64_t>(n);
}

MemoryErrorKind KindOf(GuardFinding finding) {
  switch (finding) {
    case GuardFinding::kFreedBefore:
      return MemoryErrorKind::kDoubleFree;
    case GuardFinding::kUseAfterFree:
      return MemoryErrorKind::kUseAfterFree;
    case GuardFinding::kBeyondEnd:
      return MemoryErrorKind::kOverflow;
    case GuardFinding::kBeforeStart:
      return MemoryErrorKind::kUnderflow;
    case GuardFinding::kNotItsStart:
    case GuardFinding::kNone:
      break;
  }
  return MemoryErrorKind::kInvalidFree;
}

MemoryError ErrorOf(const GuardVerdict& v, Noticed noticed) {
  const GuardedBlock& b = *v.block;
  return {KindOf(v.finding),
          noticed,
          v.at,
          b.address.load(std::memory_order_relaxed),
          b.size.load(std::memory_order_relaxed),
          &b.allocated,
          b.freed.thread == 0 ? nullptr : &b.freed};
}

}  // namespace

Stretches StretchesForGuards() {
  if (STRATA_LIKELY(g_every == 0)) return Stretches::kAllowed;
  if (g_every <= kEachIsSeen) return Stretches::kNone;
  // At the most as many as lie between two guarded ones, of the smallest size.
  const size_t most = size_t{g_every} * 16;
  return most < kMaxClassSize ? static_cast<Stretches>(most) : Stretches::kAllowed;
}

void StartGuards(const Options& options, uint64_t seed) {
  g_every = options.guard_every;
  g_by_default = !options.says_guard;
  g_random.store(seed, std::memory_order_relaxed);
  if (g_every != 0) g_left.store(Draw(), std::memory_order_relaxed);
}

void KeepStacksWhole() {
  if (MayOpenFiles() && UnwindTablesStale()) OnSideStack([] { RefreshUnwindTables(); });
}

void* TakeGuarded(Runtime& r, size_t size, size_t align, StandsFor what) {
  if (g_every == 0) return nullptr;
  const int64_t n = what == StandsFor::kItself
                        ? 1
                        : AllocationsIn(static_cast<size_t>(StretchesForGuards()), size);
  if (g_left.fetch_sub(n, std::memory_order_relaxed) > n) return nullptr;
  if (size > ProcessGuards::kMostBytes || align > kNativePageSize || !MayGuard()) return nullptr;
  if (g_by_default) {
    const uint64_t now = r.kernel.NowNs();
    if (now < g_not_before.load(std::memory_order_relaxed)) return nullptr;
    g_not_before.store(now + kLeastGapNs, std::memory_order_relaxed);
  }
  g_left.store(Draw(), std::memory_order_relaxed);
  const ErrnoKeeper keep;
  if (!PoolIsReady(r)) return nullptr;
  if (!g_by_default) KeepStacksWhole();
  const BlockEvent event = CurrentEvent();
  return Guards().Take(size, align < 16 ? 16 : align, static_cast<uint32_t>(Random() >> 32), event);
}

void FreeGuarded(void* p) {
  const GuardVerdict verdict = Guards().Free(p, CurrentEvent());
  if (STRATA_LIKELY(verdict.finding == GuardFinding::kNone)) return;
  const bool changed =
      verdict.finding == GuardFinding::kBeyondEnd || verdict.finding == GuardFinding::kBeforeStart;
  ReportMemoryError(ErrorOf(verdict, changed ? Noticed::kLater : Noticed::kFree));
}

void* ReallocateGuarded(void* p, size_t size) {
  const size_t old_size = Guards().SizeOf(p);
  if (old_size == 0 && Guards().Explain(reinterpret_cast<uintptr_t>(p)).block != nullptr) {
    // An empty block is one, too.
    GuardVerdict v = Guards().Explain(reinterpret_cast<uintptr_t>(p));
    const auto at = reinterpret_cast<uintptr_t>(p);
    const bool is_start = v.block->address.load(std::memory_order_relaxed) == at;
    if (!is_start || v.block->state.load(std::memory_order_acquire) != GuardState::kLive) {
      v.finding = is_start ? GuardFinding::kFreedBefore : GuardFinding::kNotItsStart;
      ReportMemoryError(ErrorOf(v, Noticed::kFree));
      errno = EINVAL;
      return nullptr;
    }
  }
  if (size == 0) {
    FreeGuarded(p);
    return nullptr;
  }
  return MoveByCopy(p, old_size, size);
}

bool SayGuardFault(uintptr_t at, Noticed access) {
  if (!Guards().Owns(reinterpret_cast<void*>(at))) return false;
  const GuardVerdict verdict = Guards().Explain(at);
  if (verdict.finding == GuardFinding::kNone) return false;
  SayMemoryError(ErrorOf(verdict, access));
  return true;
}

}  // namespace strata
