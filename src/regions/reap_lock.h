// What the lock of a shared reap is in this process: biased to the thread in the reap's scope, if
// the kernel has the fence that ends a bias. Sits in regions.
#pragma once

#include <atomic>

#include "malloc/runtime.h"
#include "regions/biased_lock.h"
#include "strata/layers/thread/locked.h"

namespace strata {

struct ReapSync {
  using Lock = layers::FutexLock;
  template <class T>
  using Atomic = std::atomic<T>;
  static void Fence();
  static void Pause(unsigned n);
  static void BiasEnded();
};
using ReapLock = BasicBiasedLock<ReapSync>;

inline ReapLock::Thread ThisThread() { return reinterpret_cast<ReapLock::Thread>(&t_state); }

// Whether the next scope's lock may have an owner. Each fence interrupts other CPUs, so where a
// bias was ended by another thread the next 64 scopes do without.
bool NextScopeMayBeBiased();

}  // namespace strata
