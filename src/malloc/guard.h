// Sampled guards: now and then a small block comes from the pool of guarded ones
// (heaps/guard_pool.h), by STRATA_GUARD. The choice falls where a thread's stretch ends, so the
// fast path knows nothing of it; blocks of the pool lie outside of the heap, so a free of one ends
// where strangers' pointers do. Sits in malloc, beside slow_path.cpp; guard_signal.cpp explains the
// faults.
//
// How many allocations a stretch stood for is not known. The size of the one that ends it, which a
// byte drawn at random picks, tells how many a byte stands for in the mean.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heaps/guard_pool.h"
#include "malloc/error_report.h"
#include "malloc/runtime.h"
#include "profile/sample_countdown.h"

namespace strata {

// The pages of the process's pool.
struct GuardPages {
  uintptr_t Reserve(size_t bytes);
  bool Open(uintptr_t at, size_t bytes);
  bool Close(uintptr_t at, size_t bytes);
};
using ProcessGuards = GuardPool<GuardPages>;

namespace guard_internal {
extern ProcessGuards g_pool;
extern uint32_t g_every;  // set once, at the start; 0: no guards
}  // namespace guard_internal

inline ProcessGuards& Guards() { return guard_internal::g_pool; }
// One of so many allocations; 0: none.
inline uint32_t GuardEvery() { return guard_internal::g_every; }
// So often that each allocation has to be looked at.
inline constexpr uint32_t kEachIsSeen = 32;
inline bool GuardsSeeAll() { return GuardEvery() != 0 && GuardEvery() <= kEachIsSeen; }

// How long a thread's stretches may be.
Stretches StretchesForGuards();

// At the start.
void StartGuards(const Options& options, uint64_t seed);

// For who keeps the histories of blocks because somebody looks for an error: the stacks are whole.
void KeepStacksWhole();

// What an allocation that is seen stands for: those of the stretch that it ended, or itself.
enum class StandsFor : uint8_t { kItself, kStretch };
// Before the allocation is counted.
STRATA_ALWAYS_INLINE StandsFor WhatItStandsFor() {
  return t_state.countdown.stretch == 0 ? StandsFor::kItself : StandsFor::kStretch;
}

// Counts an allocation that is seen. A guarded block if its turn has come and it can be one; null
// otherwise.
void* TakeGuarded(Runtime& r, size_t size, size_t align, StandsFor what);

// --- Of an address in the pool.
void FreeGuarded(void* p);
// Null with ENOMEM, and the block as it was; or with EINVAL, when it is no live block.
void* ReallocateGuarded(void* p, size_t size);

// Says why the access faulted. False: not because of a guard. Async-signal-safe.
bool SayGuardFault(uintptr_t at, Noticed access);

// From now on the faults of guards are said. Keeps what the program does with SIGSEGV.
void InstallGuardHandler();

}  // namespace strata
