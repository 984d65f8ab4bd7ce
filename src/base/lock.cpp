// The slow half of lock.h: a short spin, then the futex; and, in debug builds, the check of lock
// ranks.
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

namespace strata {
namespace {

// Errno is the program's: syscall() may set it, so it is put back.
void Futex(std::atomic<uint32_t>* word, int op, uint32_t value) {
  const int saved = errno;
  syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace

void Lock::AcquireSlow() {
  // Holders keep the lock for well under a microsecond, so a short spin usually wins over a sleep.
  for (int i = 0; i < 100; ++i) {
    uint32_t expected = kFree;
    if (state_.load(std::memory_order_relaxed) == kFree &&
        state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return;
    }
    __builtin_ia32_pause();
  }
  // acquire: pairs with the release in Release().
  while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
    Futex(&state_, FUTEX_WAIT, kContended);
  }
}

void Lock::WakeOne() { Futex(&state_, FUTEX_WAKE, 1); }

#ifndef NDEBUG
namespace {
// One bit for each rank this thread holds. Locks of one rank are taken together only by the fork
// handlers, which take them in a fixed order, so equal ranks are counted, not refused.
__attribute__((tls_model("initial-exec"))) thread_local uint32_t held_counts[16];
}  // namespace

void Lock::NoteAcquired() {
  const auto rank = static_cast<size_t>(rank_);
  for (size_t above = rank + 1; above < 16; ++above) STRATA_CHECK(held_counts[above] == 0);
  ++held_counts[rank];
}

void Lock::NoteReleased() { --held_counts[static_cast<size_t>(rank_)]; }
#endif

}  // namespace strata
