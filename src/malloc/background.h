// The background thread: releases, drains idle caches, writes periodic statistics, answers the
// control socket. Started on first need, restarted on first need in a forked child that lives on,
// never in the way of the program's end. Sits in malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "malloc/runtime.h"

namespace strata {

struct BackgroundStats {
  bool running = false;
  uint64_t ticks = 0;
  uint64_t released_bytes = 0;
};

namespace background_internal {
extern std::atomic<bool> g_may_start;
}  // namespace background_internal
STRATA_NOINLINE void StartBackgroundSlow();

// Called on the slow path. No lock is held, unless the block is a chunk of a shared reap: then
// there is a NoThreadStart.
STRATA_ALWAYS_INLINE void StartBackgroundIfNeeded() {
  if (STRATA_UNLIKELY(background_internal::g_may_start.load(std::memory_order_relaxed)))
    StartBackgroundSlow();
}

// Around a reap's lock under which a chunk may be taken: the program's pthread_create may be one
// that wants the lock, so a thread that is due starts after it.
class NoThreadStart {
 public:
  NoThreadStart() { t_state.starts_no_thread = 1; }
  ~NoThreadStart() { t_state.starts_no_thread = 0; }
  NoThreadStart(const NoThreadStart&) = delete;
  NoThreadStart& operator=(const NoThreadStart&) = delete;
};

// One round of the work.
void BackgroundTick();

BackgroundStats ReadBackgroundStats();
void BackgroundForgetInChild();

}  // namespace strata
