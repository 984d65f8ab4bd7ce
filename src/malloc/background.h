// The background thread: releases, drains idle caches, writes periodic statistics. Started on first
// need, restarted in a forked child on first need, never in the way of the program's end. Sits in
// malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/lock.h"

namespace strata {

struct BackgroundStats {
  bool running = false;
  uint64_t ticks = 0;
  uint64_t released_bytes = 0;
};

namespace background_internal {
extern std::atomic<bool> g_may_start;
extern Lock g_control;
}  // namespace background_internal
STRATA_NOINLINE void StartBackgroundSlow();

// Called on the slow path with no lock held.
STRATA_ALWAYS_INLINE void StartBackgroundIfNeeded() {
  if (STRATA_UNLIKELY(background_internal::g_may_start.load(std::memory_order_relaxed)))
    StartBackgroundSlow();
}

// Held by whoever moves memory in bulk (the thread's tick, strata_release), so that a fork never
// catches memory half given back.
inline Lock& ControlLock() STRATA_TSA(lock_returned(background_internal::g_control)) {
  return background_internal::g_control;
}

// One tick, with the control lock held by the caller.
void BackgroundTick() STRATA_REQUIRES(ControlLock());

BackgroundStats ReadBackgroundStats();
void BackgroundForgetInChild();

}  // namespace strata
