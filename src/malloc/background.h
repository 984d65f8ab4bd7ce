// The background work: releases, drains idle caches, looks at the limits. A thread of the library's
// own does it once a second. Where there can be none (after the program has confined itself, under
// an inherited filter before the program has threads, with no room for a thread), the program's own
// calls do it. Sits in malloc.
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
extern std::atomic<bool> g_looks;
}  // namespace background_internal
STRATA_NOINLINE void LookAtBackground();
STRATA_NOINLINE bool HasBackgroundWork();

// Whether there is something to tend.
STRATA_ALWAYS_INLINE bool BackgroundLooks() {
  return background_internal::g_looks.load(std::memory_order_relaxed);
}
// Whether a look would do anything: below 8 MiB in use there is none to do, unless somebody asked.
STRATA_ALWAYS_INLINE bool BackgroundIsDue() { return BackgroundLooks() && HasBackgroundWork(); }
// Called on the slow path. No lock is held, unless the block is a chunk of a shared reap: then
// there is a NoThreadStart.
STRATA_ALWAYS_INLINE void TendBackground() {
  if (STRATA_UNLIKELY(BackgroundLooks())) LookAtBackground();
}

// Around a reap's lock under which a chunk may be taken: neither is a thread started there nor work
// done that takes other locks.
class NoThreadStart {
 public:
  NoThreadStart() { t_state.starts_no_thread = 1; }
  ~NoThreadStart() { t_state.starts_no_thread = 0; }
  NoThreadStart(const NoThreadStart&) = delete;
  NoThreadStart& operator=(const NoThreadStart&) = delete;
};

// What is wanted some fifty times until the next round.
struct AfterTick {
  bool populates;  // PageHeap::PopulateAhead: the program grows fast
  bool rebuilds;   // BackgroundRebuild
};
// One round of the work; for the thread.
AfterTick BackgroundTick();
// A part of the rebuilding. False: that is all until the next round.
bool BackgroundRebuild();
// The thread is about to end; for so long there will be no other.
void BackgroundEnded(uint64_t rest_ns);

BackgroundStats ReadBackgroundStats();

// For whom a thread would be: a program that knows of none, or one that asked for what takes one.
enum class ThreadFor : bool { kGuest, kAsked };
bool MayStartThread(ThreadFor whom);
void BackgroundForgetInChild();

}  // namespace strata
