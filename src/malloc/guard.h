// Sampled guards: now and then a block comes from a pool of guarded ones (heaps/guard_pool.h), by
// STRATA_GUARD. The choice falls where a thread's stretch ends, so the fast path knows nothing of
// it; blocks of the pools lie outside of the heap, so a free of one ends where strangers' pointers
// do. Sits in malloc, beside slow_path.cpp; guard_signal.cpp explains the faults.
//
// There are two pools, one of blocks of up to a page and one of larger ones, whose places take more
// address space. A large block has the chance of any other: guarding it takes about the time of
// writing to it once, so one in N blocks costs the same share whatever the sizes. By bytes, as
// samples are drawn, the dearest would be guarded most.
//
// How many allocations a stretch stood for is not known. The size of the one that ends it, which a
// byte drawn at random picks, tells how many a byte stands for in the mean.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "heaps/guard_pool.h"
#include "malloc/error_report.h"
#include "malloc/runtime.h"
#include "profile/sample_countdown.h"

namespace strata {

// The pages of the process's pools.
struct GuardPages {
  uintptr_t Reserve(size_t bytes, size_t align);
  bool Open(uintptr_t at, size_t bytes);
  ClosedPlace Close(uintptr_t at, size_t bytes);
};
using ProcessGuards = GuardPool<GuardPages>;

namespace guard_internal {
extern ProcessGuards g_small;
extern ProcessGuards g_large;
extern uint32_t g_every;  // set once, at the start; 0: no guards
// Allocations up to the next guarded one. Threads that count at once may lose a count.
extern std::atomic<int64_t> g_left;
// The block is the one whose turn it is. One that it can't be waits for another.
void* GuardNow(Runtime& r, size_t size, size_t align, const WalkStart* from);
}  // namespace guard_internal

inline const ProcessGuards& SmallGuards() { return guard_internal::g_small; }
inline const ProcessGuards& LargeGuards() { return guard_internal::g_large; }
inline bool IsGuarded(const void* p) { return SmallGuards().Owns(p) || LargeGuards().Owns(p); }
// One of so many allocations; 0: none.
inline uint32_t GuardEvery() { return guard_internal::g_every; }
// So often that each allocation has to be looked at.
inline constexpr uint32_t kEachIsSeen = 32;
inline bool GuardsSeeAll() { return GuardEvery() != 0 && GuardEvery() <= kEachIsSeen; }

// How long a thread's stretches may be.
inline Stretches StretchesForGuards() {
  if (STRATA_LIKELY(GuardEvery() == 0)) return Stretches::kAllowed;
  if (GuardEvery() <= kEachIsSeen) return Stretches::kNone;
  // At the most as many as lie between two guarded ones, of the smallest size.
  const size_t most = size_t{GuardEvery()} * 16;
  return most < kMaxClassSize ? static_cast<Stretches>(most) : Stretches::kAllowed;
}

// At the start.
void StartGuards(const Options& options, uint64_t seed);

// In the child of a fork.
void PaceGuardsAnewInChild();

// For who keeps the histories of blocks because somebody looks for an error: the stacks are whole.
void KeepStacksWhole();

// What an allocation that is seen stands for: those of the stretch that it ended, or itself.
enum class StandsFor : uint8_t { kItself, kStretch };
// Before the allocation is counted.
STRATA_ALWAYS_INLINE StandsFor WhatItStandsFor() {
  return t_state.countdown.stretch == 0 ? StandsFor::kItself : StandsFor::kStretch;
}

// Counts an allocation that is seen; whether its turn has come.
STRATA_ALWAYS_INLINE bool IsGuardsTurn(size_t size, StandsFor what) {
  if (STRATA_UNLIKELY(GuardEvery() == 0)) return false;
  int64_t n = 1;
  if (what == StandsFor::kStretch && size <= kMaxClassSize) {
    // One of so many bytes ended the stretch.
    const auto stretch = static_cast<size_t>(StretchesForGuards());
    if (size < stretch / 2) n = static_cast<int64_t>(stretch / (size < 16 ? 16 : size));
  }
  const int64_t left = guard_internal::g_left.load(std::memory_order_relaxed);
  if (STRATA_UNLIKELY(left <= n)) return true;
  guard_internal::g_left.store(left - n, std::memory_order_relaxed);
  return false;
}

// A guarded block if its turn has come and it can be one; null otherwise. `from`: where the caller
// is, if known.
STRATA_ALWAYS_INLINE void* TakeGuarded(Runtime& r, size_t size, size_t align, StandsFor what,
                                       const WalkStart* from = nullptr) {
  return IsGuardsTurn(size, what) ? guard_internal::GuardNow(r, size, align, from) : nullptr;
}
// The same of a block above kMaxClassSize, all zeroes.
void* TakeGuardedZeroed(Runtime& r, size_t size);

// Around the allocation of a block that has to lie in the heap.
class NoGuards {
 public:
  NoGuards() : before_(t_state.unguarded) { t_state.unguarded = 1; }
  ~NoGuards() { t_state.unguarded = before_; }
  NoGuards(const NoGuards&) = delete;
  NoGuards& operator=(const NoGuards&) = delete;

 private:
  const decltype(t_state.unguarded) before_;
};

// --- Of an address in a pool.
size_t SizeOfGuarded(const void* p);  // 0: no live block starts there
void FreeGuarded(void* p);
// Null with ENOMEM, and the block as it was; or with EINVAL, when it is no live block.
void* ReallocateGuarded(void* p, size_t size);

// Says why the access by the instruction at pc faulted. False: not because of a guard.
// Async-signal-safe.
bool SayGuardFault(uintptr_t at, Noticed access, uintptr_t pc);
// Lets it go on, after it was said.
void ForgiveGuardFault(uintptr_t at);

// From now on the faults of guards are said. Keeps what the program does with SIGSEGV. Once.
void InstallGuardHandler();

}  // namespace strata
