// The slow half of lock.h: a short spin, then the futex; and, in debug builds, the check of lock
// ranks.
#include "base/lock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <iterator>

#include "base/arch.h"
#include "base/check.h"
#include "base/moment.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

// Which thread forks, 0: none. One at a time, because it holds all locks; thread-local memory is
// dear.
constinit std::atomic<pthread_t> g_forking{0};

bool Forks() {
  const pthread_t forking = g_forking.load(std::memory_order_relaxed);
  return forking != 0 && forking == pthread_self();
}

void Futex(std::atomic<uint32_t>* word, int op, uint32_t value) {
  raw::Call(SYS_futex, raw::Word(word), op | FUTEX_PRIVATE_FLAG, value);
}

}  // namespace

void Lock::AcquireSlow() {
  if ((state_.load(std::memory_order_relaxed) & kForFork) != 0 && Forks()) return;
  // Holders keep the lock for well under a microsecond, so a short spin usually wins over a sleep.
  for (int i = 0; i < 100; ++i) {
    uint32_t expected = kFree;
    if (state_.load(std::memory_order_relaxed) == kFree &&
        state_.compare_exchange_weak(expected, Held(), std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return;
    }
    arch::Relax();
  }
  for (;;) {
    uint32_t seen = state_.load(std::memory_order_relaxed);
    // There may be others who wait: whoever got it by waiting wakes the next.
    const uint32_t wanted = seen == kFree ? Held() | kContended : seen | kContended;
    // acquire: pairs with the release in Release(), if it was free.
    if (seen != wanted && !state_.compare_exchange_weak(seen, wanted, std::memory_order_acquire,
                                                        std::memory_order_relaxed)) {
      continue;
    }
    if (seen == kFree) return;
    Futex(&state_, FUTEX_WAIT, wanted);
  }
}

void Lock::ReleaseSlow() {
  // Only the thread that forks comes here then: it had passed through.
  if ((state_.load(std::memory_order_relaxed) & kForFork) != 0) return;
  if ((state_.exchange(kFree, std::memory_order_release) & kContended) != 0)
    Futex(&state_, FUTEX_WAKE, 1);
}

bool Lock::AcquireForFork(ForkWait wait) STRATA_NO_TSA {
  if (HeldByThisThread()) return true;
  const auto take = [this] {
    uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, Held(), std::memory_order_acquire,
                                          std::memory_order_relaxed);
  };
  if (wait == ForkWait::kAMoment) {
    if (!WithinAMoment(take)) return false;
  } else if (!take()) {
    AcquireSlow();
  }
  NoteAcquiredInAnyOrder();
  state_.fetch_or(kForFork, std::memory_order_relaxed);
  return true;
}

void Lock::ReleaseInForkedChild() STRATA_NO_TSA {
  // Whom the handler interrupted goes on with it.
  if (HeldByThisThread()) return ReleaseAfterFork();
  state_.store(kFree, std::memory_order_relaxed);
}

void Lock::ReleaseAfterFork() STRATA_NO_TSA {
  if ((state_.load(std::memory_order_relaxed) & kForFork) == 0 || !HeldByThisThread()) return;
  NoteReleased();
  // release: as in Release().
  if ((state_.exchange(kFree, std::memory_order_release) & kContended) != 0)
    Futex(&state_, FUTEX_WAKE, 1);
}

void Lock::BeginFork() { g_forking.store(pthread_self(), std::memory_order_relaxed); }
void Lock::EndFork() { g_forking.store(0, std::memory_order_relaxed); }
bool Lock::ThisThreadForks() { return Forks(); }

#ifndef NDEBUG
namespace {
// How many of each rank this thread holds. Locks of one rank are taken together only by the fork
// handlers, which take them in a fixed order, so equal ranks are counted, not refused.
__attribute__((tls_model(
    "initial-exec"))) thread_local uint32_t held_counts[static_cast<size_t>(LockRank::kCount)];
}  // namespace

// A thread that forks holds all ranks already and takes more as if it held none.
void Lock::NoteAcquired() {
  if (Forks()) return;
  const auto rank = static_cast<size_t>(rank_);
  for (size_t above = rank + 1; above < std::size(held_counts); ++above)
    STRATA_CHECK(held_counts[above] == 0);
  ++held_counts[rank];
}

void Lock::NoteAcquiredInAnyOrder() { ++held_counts[static_cast<size_t>(rank_)]; }

void Lock::NoteReleased() {
  if (!Forks()) --held_counts[static_cast<size_t>(rank_)];
}
#endif

}  // namespace strata
