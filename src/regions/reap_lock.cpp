// See reap_lock.h.
#include "regions/reap_lock.h"

#include "base/moment.h"
#include "os/confinement.h"
#include "os/rseq.h"

namespace strata {
namespace {

constinit std::atomic<uint32_t> g_unbiased_to_come{0};

}  // namespace

// Where the program has confined itself since it took the bias, membarrier must not be called. No
// CPU keeps a store to itself for long: to switch threads, as to be interrupted, drains them.
void ReapSync::Fence() {
  if (!FenceRseq()) Nap(5'000'000);
}

void ReapSync::Pause(unsigned n) { WaitBriefly(n); }

void ReapSync::BiasEnded() { g_unbiased_to_come.store(64, std::memory_order_relaxed); }

bool NextScopeMayBeBiased() {
  // Two threads may miss each other's step.
  if (const uint32_t left = g_unbiased_to_come.load(std::memory_order_relaxed); left != 0) {
    g_unbiased_to_come.store(left - 1, std::memory_order_relaxed);
    return false;
  }
  FindInheritedConfinement();  // the first scope of a small program would have no bias else
  return MayFenceRseq();
}

}  // namespace strata
