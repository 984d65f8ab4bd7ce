// Where this process pays for growth while memory or process ids are scarce (STRATA_PRICE): a
// thread that grew the heap waits, bounded and with no lock held, before it gets what it asked for;
// a process that forks waits before the fork. What is owed: price/account.h and price_law.h;
// docs/price.md. Sits in malloc.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/check.h"
#include "base/lock.h"
#include "malloc/runtime.h"
#include "profile/heap_stats.h"

namespace strata {

namespace price_internal {
extern std::atomic<size_t> g_step;
}

STRATA_NOINLINE void PayForGrowth();
// Called on the slow path with no lock held, before the program touches what it got; calls that the
// size classes' caches serve never come here.
STRATA_ALWAYS_INLINE void PayForGrowthIfDue() {
  if (STRATA_UNLIKELY(TheRuntime().heap.page_heap().GrewPastWatch())) PayForGrowth();
}

// By how much the heap may grow between two looks; SIZE_MAX while growth has no price. Who takes
// more than was asked for, against the next request, takes no more than this: it would be touched
// without another look.
inline size_t GrowthBetweenLooks() {
  return price_internal::g_step.load(std::memory_order_relaxed);
}

// Before a fork takes any lock.
void PayForFork();

// Once a round, from the background: debts end also in a process that makes no calls.
void PriceTick();

// At run time, from any thread.
enum class Pricing : bool { kOff, kOn };
void SetPricing(Pricing pricing, uint32_t weight);
// In a process that has just begun: it has been forked.
void StartPricing(uint32_t weight);

PriceStats ReadPrice();

// Taken before a fork. In the child, nobody waits any more; debts are inherited.
Lock& PriceLock();
void ForgetWaitersInChild();

}  // namespace strata
