// The one lock of the run time: a 4-byte futex mutex that never allocates, knows its holder, and
// can be taken and released by the fork handlers. Every lock has a rank; a debug build aborts when
// a thread takes a lock of a rank not above the one it holds. Between the fork handlers the thread
// that forks passes through the locks that they hold: a library whose constructor runs before ours
// has handlers that run between ours, and they may allocate. What a signal handler that forks has
// interrupted keeps its locks on both sides, and goes on when the handler returns. Sits in base.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/thread_annotations.h"

namespace strata {

// In the order in which they may be taken, from the program's calls down to the arena: a thread
// holding one may take only a later one.
enum class LockRank : uint8_t {
  kControl,
  kPrice,
  kHotRound,
  kHotDomain,
  kHotShelf,
  kHotPool,
  kThreadList,
  kSampler,
  kCpuCache,
  kTransfer,
  kCentral,
  kLocalSpans,  // LLAMA's, which has none of those above
  kBlockPages,
  kLentPages,
  kPageHeap,
  kMetadata,
  kUnwind,  // takes nothing inside; not held over a fork
  kCount    // none: how many there are
};

class STRATA_CAPABILITY("mutex") Lock {
 public:
  constexpr explicit Lock(LockRank rank) : rank_(rank) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void Acquire() STRATA_ACQUIRE() {
    uint32_t expected = kFree;
    // acquire: pairs with the release in Release().
    if (!state_.compare_exchange_strong(expected, Held(), std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      AcquireSlow();
    }
    NoteAcquired();
  }

  bool TryAcquire() STRATA_TRY_ACQUIRE(true) {
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, Held(), std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      return false;
    }
    NoteAcquired();
    return true;
  }

  void Release() STRATA_RELEASE() {
    NoteReleased();
    uint32_t expected = Held();
    // release: pairs with the acquire in Acquire() and AcquireSlow().
    if (!state_.compare_exchange_strong(expected, kFree, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      ReleaseSlow();
    }
  }

  bool HeldByThisThread() const {
    return (state_.load(std::memory_order_relaxed) & ~(kContended | kForFork)) == Held();
  }

  // How long AcquireForFork may wait. A thread that forks in a signal handler may have interrupted
  // the owner of a lock: who waits for that one must not keep what the fork waits for.
  enum class ForkWait : bool { kAsLongAsItTakes, kAMoment };

  // The fork handlers: all locks are taken so, then the thread forks, and then they are released
  // so. One that the thread holds already stays as it is. A lock that was not taken, as it was made
  // meanwhile or could not be had in a moment (false), may be released all the same. In the child
  // such a one is free: its holder is not there, and had stopped to wait for another lock.
  bool AcquireForFork(ForkWait wait = ForkWait::kAsLongAsItTakes) STRATA_ACQUIRE();
  void ReleaseAfterFork() STRATA_RELEASE();
  void ReleaseInForkedChild() STRATA_RELEASE();
  // Whether this thread forks, from the first call to the second.
  static void BeginFork();
  static void EndFork();
  static bool ThisThreadForks();

 private:
  // A held lock is kHeld with its holder above the three bits, in one word, so that there is no
  // moment at which a lock is held and nobody knows by whom. The others are set beside it: kForFork
  // by the holder, kContended by who waits.
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2, kForFork = 4;

  // The thread as 29 bits of its thread pointer. That two threads share them is unlikely, and
  // matters only where one of them forks, or is sampled, while the other holds the lock.
  static uint32_t Held() {
    const auto thread = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
    return static_cast<uint32_t>((thread >> 6) ^ (thread >> 35)) << 3 | kHeld;
  }

  void AcquireSlow();
  void ReleaseSlow();
#ifdef STRATA_LOCK_HOLDS  // tests/heaps/lock_holds_test.cpp
 public:
  static inline void (*observer)(const Lock&, bool acquired) = nullptr;

 private:
  void NoteAcquired() {
    if (observer != nullptr) observer(*this, true);
  }
  void NoteAcquiredInAnyOrder() { NoteAcquired(); }
  void NoteReleased() {
    if (observer != nullptr) observer(*this, false);
  }
#elif defined(NDEBUG)
  void NoteAcquired() {}
  void NoteAcquiredInAnyOrder() {}
  void NoteReleased() {}
#else
  void NoteAcquired();
  void NoteAcquiredInAnyOrder();
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
