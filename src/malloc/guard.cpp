// Which blocks are guarded, and what becomes of them. See guard.h.
#include "malloc/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/errno_keeper.h"
#include "heaps/guard_pace.h"
#include "malloc/blocks.h"
#include "malloc/error_report.h"
#include "malloc/fast_path.h"
#include "malloc/live_options.h"
#include "malloc/own_process.h"
#include "malloc/runtime.h"
#include "malloc/sampling.h"
#include "os/confinement.h"
#include "os/move_conditions.h"
#include "os/page_bytes.h"
#include "os/side_stack.h"
#include "profile/stack_walk.h"
#include "profile/unwind/walk_step.h"

namespace strata {

namespace guard_internal {
// Two closed pages between two blocks: what misses one by a page misses the other, too.
constinit ProcessGuards g_small({kNativePageSize, 2 * kNativePageSize});
// By default no larger than what all may take, for the address space, too, is the program's
// (RLIMIT_AS, mlockall). Where somebody looks for errors, places begin at hugepages, so that a
// block for which the heap would have those has them here.
constinit ProcessGuards g_large({size_t{512} << 10, size_t{512} << 10});
constinit uint32_t g_every = 0;
constinit std::atomic<int64_t> g_left{0};
}  // namespace guard_internal

uintptr_t GuardPages::Reserve(size_t bytes, size_t align) {
  const size_t more = align > kNativePageSize ? align : 0;
  void* p =
      mmap(nullptr, bytes + more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? 0 : RoundUp(reinterpret_cast<uintptr_t>(p), align);
}

bool GuardPages::Open(uintptr_t at, size_t bytes) {
  void* pages = reinterpret_cast<void*>(at);
  if (mprotect(pages, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  if (bytes >= kHugePageSize)
    madvise(pages, bytes, TheRuntime().options.hugepages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return true;
}

// Its memory goes back: most slots hold freed blocks, and nobody reads those, except a program that
// goes on after an error. That keeps small blocks. Under a filter that may forbid it the pages stay
// open: the block is free all the same.
ClosedPlace GuardPages::Close(uintptr_t at, size_t bytes) {
  void* place = reinterpret_cast<void*>(at);
  if (!MayOpenFiles()) return ClosedPlace::kKept;
  // Page tables and all. Where it fails some kernels have unmapped what was there.
  if (bytes != kNativePageSize)
    return mmap(place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) == place
               ? ClosedPlace::kEmpty
               : ClosedPlace::kLost;
  const bool empty = mprotect(place, bytes, PROT_NONE) == 0 &&
                     TheRuntime().options.on_error != OnError::kIgnore &&
                     madvise(place, bytes, MADV_DONTNEED) == 0;
  return empty ? ClosedPlace::kEmpty : ClosedPlace::kKept;
}

namespace {

using guard_internal::g_every;
using guard_internal::g_large;
using guard_internal::g_left;
using guard_internal::g_small;

enum class PoolState : uint8_t { kNone, kMaking, kReady, kRefused };

// Somebody is looking for an error if one in so many blocks is guarded: then there are many slots.
constexpr uint32_t kManyUpTo = 1000;

struct Pool {
  ProcessGuards& guards;
  size_t few_slots;
  size_t many_slots;
  std::atomic<PoolState> state{PoolState::kNone};
};

// By default pages and records together take less than half a MiB.
Pool g_smalls{g_small, 64, 4096};
// Memory only while a block lives, and 17 MiB of addresses; where somebody looks for errors of
// blocks up to 32 MiB, 0.5 GiB, with 256 slots 8.5. A slot takes two of the 65,530 mappings that a
// process may have.
Pool g_larges{g_large, 16, 256};
constexpr size_t kMostIfAsked = size_t{32} << 20;

constinit GuardPace<SystemKernel> g_pace;  // at the default rate
// Of all live large blocks, for which the heap may have free memory; where somebody looks for
// errors, also a quarter of what is in use.
constexpr size_t kMostLarge = size_t{512} << 10, kMostLargeIfAsked = size_t{256} << 20;

std::atomic<uint64_t> g_random{0};
// Where a turn finds a block that can't be guarded, or comes too early, it waits for one of the
// next that many in a turn: most blocks need not look at the clock.
constexpr int64_t kTriesInATurn = 64;
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
  return !t.unguarded && !t.at_work && !t.vforked && MayOpenFiles() && MaySetSignalMask();
}

// Address space is not always free, and on larger pages of the kernel nothing fits.
bool MayReserveMuch() {
  return MayCallAnything() && KernelPageBytes() == kNativePageSize && IsAddressSpaceFree();
}

bool PoolIsReady(Runtime& r, Pool& pool) {
  PoolState s = pool.state.load(std::memory_order_acquire);
  if (STRATA_LIKELY(s != PoolState::kNone)) return s == PoolState::kReady;
  if (!pool.state.compare_exchange_strong(s, PoolState::kMaking, std::memory_order_acquire))
    return false;
  const size_t slots = g_every <= kManyUpTo ? pool.many_slots : pool.few_slots;
  const bool made =
      (&pool == &g_smalls || MayReserveMuch()) && pool.guards.Init(r.sample_arena, slots);
  if (made) InstallGuardHandler();
  pool.state.store(made ? PoolState::kReady : PoolState::kRefused, std::memory_order_release);
  return made;
}

// A hard limit is of the heap, which this is not part of, and so is what growth is paid for.
bool MayGuardLarge(Runtime& r, size_t size, size_t align) {
  const PoolState s = g_larges.state.load(std::memory_order_relaxed);
  if (s == PoolState::kMaking || s == PoolState::kRefused) return false;
  if (size > g_large.most_bytes() || align > g_large.most_align()) return false;
  if (r.heap.page_heap().hard_limit() != 0 || LoadOption(r.options.price)) return false;
  if (g_large.slots() != 0 && g_large.live() >= g_large.slots()) return false;
  const size_t with = g_large.open_bytes() + size;
  if (g_by_default) return with <= kMostLarge;
  return with <= kMostLargeIfAsked || with <= BytesOf(r.heap.page_heap().used_lately()) / 4;
}

// p lies in one.
ProcessGuards& PoolOf(const void* p) { return g_small.Owns(p) ? g_small : g_large; }

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

MemoryError ErrorOf(const GuardVerdict& v, Noticed noticed, const BlockEvent* done) {
  const GuardedBlock& b = *v.block;
  return {KindOf(v.finding),
          noticed,
          v.at,
          b.address.load(std::memory_order_relaxed),
          b.size.load(std::memory_order_relaxed),
          &b.allocated,
          b.freed.thread == 0 ? nullptr : &b.freed,
          done};
}

}  // namespace

STRATA_ONCE void StartGuards(const Options& options, uint64_t seed) {
  g_every = options.guard_every;
  g_by_default = !options.says_guard;
  if (!g_by_default) g_large.SetSizes({kMostIfAsked, kHugePageSize});
  g_random.store(seed, std::memory_order_relaxed);
  if (g_every != 0) g_left.store(Draw(), std::memory_order_relaxed);
}

void PaceGuardsAnewInChild() { g_pace.BeginAnew(); }

void KeepStacksWhole() {
  if (MayOpenFiles() && UnwindTablesStale()) OnSideStack([] { RefreshUnwindTables(); });
}

void* guard_internal::GuardNow(Runtime& r, size_t size, size_t align, const WalkStart* from) {
  const bool large = size > g_small.most_bytes() || align > g_small.most_align();
  const bool may =
      MayGuard() && (!large || MayGuardLarge(r, size, align)) &&
      (!g_by_default || g_pace.TakeTurn(r.kernel, large ? size / kNativePageSize + 1 : 0));
  g_left.store(may ? Draw() : g_every / kTriesInATurn + 1, std::memory_order_relaxed);
  if (!may) return nullptr;
  const ErrnoKeeper keep;
  Pool& pool = large ? g_larges : g_smalls;
  if (!PoolIsReady(r, pool)) return nullptr;
  if (!g_by_default) KeepStacksWhole();
  const BlockEvent event = CurrentEvent(from);
  return pool.guards.Take(size, align < 16 ? 16 : align, static_cast<uint32_t>(Random() >> 32),
                          event);
}

void* TakeGuardedZeroed(Runtime& r, size_t size) {
  void* p = TakeGuarded(r, size, 1, StandsFor::kItself);
  if (p != nullptr && !g_large.GivesZeroes()) memset(p, 0, size);
  return p;
}

size_t SizeOfGuarded(const void* p) { return PoolOf(p).SizeOf(p); }

void FreeGuarded(void* p) {
  const ErrnoKeeper keep;
  ProcessGuards& guards = PoolOf(p);
  SampleFreed(TheRuntime(), p);
  const WalkStart from = StartAtCall();
  const BlockEvent now = CurrentEvent(&from);
  const GuardVerdict verdict = guards.Free(p, now);
  if (STRATA_LIKELY(verdict.finding == GuardFinding::kNone)) return;
  const bool changed =
      verdict.finding == GuardFinding::kBeyondEnd || verdict.finding == GuardFinding::kBeforeStart;
  ReportMemoryError(changed ? ErrorOf(verdict, Noticed::kLater, nullptr)
                            : ErrorOf(verdict, Noticed::kFree, &now));
  guards.Release(verdict);
}

void* ReallocateGuarded(void* p, size_t size) {
  const size_t old_size = SizeOfGuarded(p);
  GuardVerdict v = PoolOf(p).Explain(reinterpret_cast<uintptr_t>(p));
  if (old_size == 0 && v.block != nullptr) {
    // An empty block is one, too.
    const auto at = reinterpret_cast<uintptr_t>(p);
    const bool is_start = v.block->address.load(std::memory_order_relaxed) == at;
    if (!is_start || v.block->state.load(std::memory_order_acquire) != GuardState::kLive) {
      v.finding = is_start ? GuardFinding::kFreedBefore : GuardFinding::kNotItsStart;
      const BlockEvent now = CurrentEvent();
      ReportMemoryError(ErrorOf(v, Noticed::kFree, &now));
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

bool SayGuardFault(uintptr_t at, Noticed access, uintptr_t pc) {
  const void* p = reinterpret_cast<void*>(at);
  if (!IsGuarded(p)) return false;
  const GuardVerdict verdict = PoolOf(p).Explain(at);
  if (verdict.finding == GuardFinding::kNone) return false;
  const BlockEvent now = EventAtFault(pc);
  SayMemoryError(ErrorOf(verdict, access, &now));
  return true;
}

void ForgiveGuardFault(uintptr_t at) { PoolOf(reinterpret_cast<void*>(at)).Forgive(at); }

}  // namespace strata
