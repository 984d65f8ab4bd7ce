// The lock of a reap that one thread uses nearly always (biased locking: Kawachiya, Koseki and
// Onodera, Lock Reservation, OOPSLA 2002). The thread that the lock is biased to goes in and out by
// plain loads and stores. Any other takes the lock below; the first one to do so ends the bias, by
// a fence on all CPUs (membarrier), and waits until the owner is out. Sits in regions; reaps say
// when a thread becomes the owner.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace strata {

// Sync: Lock, Atomic<T>, and two functions. Fence(): what any thread stored before it is seen by
// the caller, and what the caller stored before it is seen by all. Pause(n): the n-th wait.
template <class Sync>
class BasicBiasedLock {
 public:
  using Thread = uintptr_t;  // its address of a thread_local; even, and no other live thread's
  enum class How : uint8_t { kAsOwner, kLocked };

  STRATA_ALWAYS_INLINE How Enter(Thread me) {
    if (STRATA_LIKELY(TryEnterAsOwner(me))) return How::kAsOwner;
    return EnterLocked(me);
  }
  STRATA_ALWAYS_INLINE void Leave(How how) {
    if (STRATA_LIKELY(how == How::kAsOwner)) return LeaveAsOwner();
    lock_.unlock();
  }
  // False: somebody else owns it, or nobody. LeaveAsOwner() ends it.
  STRATA_ALWAYS_INLINE bool TryEnterAsOwner(Thread me) {
    // Inside already: a signal handler of the owner's, which waits for ever, as for any lock.
    if (owner_.load(std::memory_order_relaxed) != me ||
        inside_.load(std::memory_order_relaxed) != kNobody)
      return false;
    inside_.store(me, std::memory_order_relaxed);
    // Only for the compiler: who ends the bias fences for both.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // acquire: pairs with the release in UnlockAfterFork.
    if (STRATA_LIKELY(owner_.load(std::memory_order_acquire) == me)) return true;
    LeaveAsOwner();
    return false;
  }
  STRATA_ALWAYS_INLINE void LeaveAsOwner() {
    // release: pairs with the acquire in WaitUntilOut.
    inside_.store(kNobody, std::memory_order_release);
  }

  // From now on there may be an owner, until another thread ends the bias: who enters next becomes
  // it by BecomeOwner. Nobody owns the lock now, as it is when it is made and after Forbid.
  void Allow() { owner_.store(kNobody, std::memory_order_relaxed); }
  // By who is inside. release: whoever reads it waits until this thread is out.
  void Forbid() { owner_.store(kNever, std::memory_order_release); }
  // By who is inside with the lock.
  STRATA_ALWAYS_INLINE void BecomeOwner(Thread me) {
    if (owner_.load(std::memory_order_relaxed) == kNobody)
      owner_.store(me, std::memory_order_relaxed);
  }
  // The next thread that becomes the owner has no bias to end. Nothing for who is not the owner.
  void GiveUpBias(Thread me) {
    if (!TryEnterAsOwner(me)) return;
    // release: whoever reads it waits until this thread is out.
    owner_.store(kNobody, std::memory_order_release);
    LeaveAsOwner();
  }

  // Around a fork, over all locks: TryLockForFork for each; if one of them suspended its owner, one
  // Fence; then it is the forking thread's once OwnerIsOut. The owners are the owners again
  // afterwards, also in the child. False: another thread has it.
  bool TryLockForFork(Thread me) {
    if (!lock_.try_lock_for_fork()) return false;
    const Thread owner = owner_.load(std::memory_order_relaxed);
    if (!IsThread(owner) || owner == me) return true;
    suspended_ = owner;
    owner_.store(kNever, std::memory_order_relaxed);
    return true;
  }
  bool SuspendsOwner() const { return suspended_ != kNobody; }
  bool OwnerIsOut() const {
    return !SuspendsOwner() || inside_.load(std::memory_order_acquire) == kNobody;
  }
  // In the middle of a call, which a signal handler interrupted. Perhaps not as the owner any more:
  // who ends the bias says so first, and then waits for this thread.
  bool HeldBy(Thread me) const {
    return lock_.held_by_this_thread() || inside_.load(std::memory_order_relaxed) == me;
  }
  // Nobody has it, nor is about to find that it is not the owner.
  bool IsFree() {
    if (!lock_.try_lock_for_fork()) return false;
    const bool out = inside_.load(std::memory_order_acquire) == kNobody;
    lock_.unlock_after_fork();
    return out;
  }
  void UnlockAfterFork() {
    // release: pairs with the acquire in TryEnterAsOwner.
    if (suspended_ != kNobody) {
      owner_.store(suspended_, std::memory_order_release);
      suspended_ = kNobody;
    }
    lock_.unlock_after_fork();
  }
  // A thread that is not there may have been about to find that it is not the owner.
  void UnlockInForkedChild(Thread me) {
    const Thread inside = inside_.load(std::memory_order_relaxed);
    if (inside != kNobody && inside != me) inside_.store(kNobody, std::memory_order_relaxed);
    if (suspended_ != kNobody) {
      owner_.store(suspended_, std::memory_order_relaxed);
      suspended_ = kNobody;
    }
    lock_.unlock_in_forked_child();
  }

 private:
  static constexpr Thread kNobody = 0, kNever = 1;
  static bool IsThread(Thread t) { return t > kNever; }

  STRATA_NOINLINE How EnterLocked(Thread me) {
    lock_.lock();
    // acquire: pairs with the release in GiveUpBias, after which the thread may still be inside.
    const Thread owner = owner_.load(std::memory_order_acquire);
    // It was not for the time of a fork. Nobody else changes that without the lock.
    if (STRATA_UNLIKELY(owner == me) && inside_.load(std::memory_order_relaxed) == kNobody) {
      inside_.store(me, std::memory_order_relaxed);
      lock_.unlock();
      return How::kAsOwner;
    }
    if (STRATA_UNLIKELY(IsThread(owner))) {
      owner_.store(kNever, std::memory_order_relaxed);
      Sync::Fence();
      Sync::BiasEnded();
    }
    WaitUntilOut();
    return How::kLocked;
  }
  void WaitUntilOut() {
    for (unsigned n = 0; inside_.load(std::memory_order_acquire) != kNobody; ++n) Sync::Pause(n);
  }

  typename Sync::Lock lock_;
  typename Sync::template Atomic<Thread> owner_{kNever};    // changed by the owner, or with lock_
  typename Sync::template Atomic<Thread> inside_{kNobody};  // as the owner; changed by it alone
  Thread suspended_ = kNobody;                              // the owner, over a fork; with lock_
};

}  // namespace strata
