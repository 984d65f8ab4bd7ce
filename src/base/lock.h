// The one lock of the run time: a 4-byte futex mutex that never allocates, can be taken and
// released by the fork handlers, and can be reset in a forked child. Every lock has a rank; a debug
// build aborts when a thread takes a lock of a rank not above the one it holds. Between the fork
// handlers the thread that forks passes through the locks that they hold: a library whose
// constructor runs before ours has handlers that run between ours, and they may allocate. Sits in
// base.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/thread_annotations.h"

namespace strata {

// In the order in which they may be taken (design §3): a thread holding one may take only a later
// one.
enum class LockRank : uint8_t {
  kControl,
  kThreadList,
  kSampler,
  kCpuCache,
  kTransfer,
  kCentral,
  kLentPages,
  kPageHeap,
  kMetadata,
  kUnwind  // takes nothing inside; not held over a fork
};

class STRATA_CAPABILITY("mutex") Lock {
 public:
  constexpr explicit Lock(LockRank rank) : rank_(rank) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void Acquire() STRATA_ACQUIRE() {
    uint32_t expected = kFree;
    // acquire: pairs with the release in Release().
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      AcquireSlow();
    }
    NoteAcquired();
  }

  bool TryAcquire() STRATA_TRY_ACQUIRE(true) {
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      return false;
    }
    NoteAcquired();
    return true;
  }

  void Release() STRATA_RELEASE() {
    NoteReleased();
    uint32_t expected = kHeld;
    // release: pairs with the acquire in Acquire() and AcquireSlow().
    if (!state_.compare_exchange_strong(expected, kFree, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      ReleaseSlow();
    }
  }

  // The fork handlers: all locks are taken so, then the thread forks, and then they are released
  // so. A lock that was made by the thread meanwhile may be released without having been taken.
  void AcquireForFork() STRATA_ACQUIRE();
  void ReleaseAfterFork() STRATA_RELEASE();
  static void SetThisThreadForks(bool forks);
  static bool ThisThreadForks();

 private:
  // kForFork is a bit beside the others, set and cleared by the holder.
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2, kForFork = 4;

  void AcquireSlow();
  void ReleaseSlow();
#ifdef NDEBUG
  void NoteAcquired() {}
  void NoteReleased() {}
#else
  void NoteAcquired();
  void NoteReleased();
#endif

  std::atomic<uint32_t> state_{kFree};
  [[maybe_unused]] LockRank rank_;
};

class STRATA_SCOPED_CAPABILITY LockHolder {
 public:
  explicit LockHolder(Lock& lock) STRATA_ACQUIRE(lock) : lock_(lock) { lock_.Acquire(); }
  ~LockHolder() STRATA_RELEASE() { lock_.Release(); }
  LockHolder(const LockHolder&) = delete;
  LockHolder& operator=(const LockHolder&) = delete;

 private:
  Lock& lock_;
};

}  // namespace strata
