// See reap_lock.h.
#include "regions/reap_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/arch.h"
#include "os/confinement.h"
#include "os/rseq.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constinit std::atomic<uint32_t> g_unbiased_to_come{0};

// By the call that a sandbox lets any malloc make.
void Sleep(long ns) {
  const uint32_t never = 0;
  const timespec wait{0, ns};
  while (raw::Call(SYS_futex, raw::Word(&never), FUTEX_WAIT_PRIVATE, 0, raw::Word(&wait)) ==
         -EINTR) {
  }
}

}  // namespace

// Where the program has confined itself since it took the bias, membarrier must not be called. No
// CPU keeps a store to itself for long: to switch threads, as to be interrupted, drains them.
void ReapSync::Fence() {
  if (!FenceRseq()) Sleep(5'000'000);
}

void ReapSync::Pause(unsigned n) { n < 100 ? arch::Relax() : Sleep(50'000); }

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
