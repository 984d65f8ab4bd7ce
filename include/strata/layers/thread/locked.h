// Locked: one lock around every call, which makes any heap thread-safe. The lock is a parameter:
// anything with lock() and unlock(); by default a small one that spins a little and then sleeps.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "strata/layers/heap.h"

namespace strata::layers {

// Four bytes; no allocation, no destructor; may be used before main.
class FutexLock {
 public:
  void lock() {
    uint32_t expected = kFree;
    // acquire: pairs with the release in unlock().
    if (!state_.compare_exchange_strong(expected, held(), std::memory_order_acquire)) LockSlow();
  }
  // False: it is held.
  bool try_lock() {
    uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, held(), std::memory_order_acquire);
  }
  void unlock() {
    // release: pairs with the acquire in lock() and LockSlow().
    uint32_t expected = held();
    if (!state_.compare_exchange_strong(expected, kFree, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      UnlockSlow();
    }
  }

  // Fork handlers take all locks so, say that their thread forks, and let go so after the fork.
  // Meanwhile that thread passes through the locks: others' handlers may run between, and may
  // allocate. Locks that it made meanwhile were not taken, and are left as they are; so are those
  // that it held before, where a signal handler forks in the middle of a call.
  void lock_for_fork() {
    if (held_by_this_thread()) return;
    lock();
    state_.fetch_or(kForFork, std::memory_order_relaxed);
  }
  // False: another thread holds it.
  bool try_lock_for_fork() {
    if (held_by_this_thread()) return true;
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, held(), std::memory_order_acquire)) return false;
    state_.fetch_or(kForFork, std::memory_order_relaxed);
    return true;
  }
  bool held_by_this_thread() const {
    return (state_.load(std::memory_order_relaxed) & ~(kContended | kForFork)) == held();
  }
  void unlock_after_fork() {
    if ((state_.load(std::memory_order_relaxed) & kForFork) == 0 || !held_by_this_thread()) return;
    // release: as in unlock().
    if ((state_.exchange(kFree, std::memory_order_release) & kContended) != 0) Wait(FUTEX_WAKE, 1);
  }
  // Of one that could not be had the holder is not there.
  void unlock_in_forked_child() {
    if (held_by_this_thread()) return unlock_after_fork();
    // Unwritten, its page stays the parent's, too.
    if (state_.load(std::memory_order_relaxed) != kFree)
      state_.store(kFree, std::memory_order_relaxed);
  }
  static void begin_fork() { forking.store(pthread_self(), std::memory_order_relaxed); }
  static void end_fork() { forking.store(0, std::memory_order_relaxed); }
  static bool this_thread_forks() {
    return forking.load(std::memory_order_relaxed) == pthread_self();
  }

 private:
  // Held is kHeld with the holder above the three bits, as 29 bits of its pthread_t; kForFork is
  // set beside it by the holder, kContended by who waits.
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2, kForFork = 4;
  static uint32_t held() {
    const auto thread = static_cast<uintptr_t>(pthread_self());
    return static_cast<uint32_t>((thread >> 6) ^ (thread >> 35)) << 3 | kHeld;
  }
  static inline constinit std::atomic<pthread_t> forking{0};  // 0: no thread

  [[gnu::noinline]] void LockSlow() {
    if ((state_.load(std::memory_order_relaxed) & kForFork) != 0 && this_thread_forks()) return;
    for (int i = 0; i < 100; ++i) {
      uint32_t expected = kFree;
      if (state_.load(std::memory_order_relaxed) == kFree &&
          state_.compare_exchange_weak(expected, held(), std::memory_order_acquire)) {
        return;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    for (;;) {
      uint32_t seen = state_.load(std::memory_order_relaxed);
      const uint32_t wanted = seen == kFree ? held() | kContended : seen | kContended;
      if (seen != wanted && !state_.compare_exchange_weak(seen, wanted, std::memory_order_acquire,
                                                          std::memory_order_relaxed)) {
        continue;
      }
      if (seen == kFree) return;
      Wait(FUTEX_WAIT, wanted);
    }
  }
  [[gnu::noinline]] void UnlockSlow() {
    // Only the thread that forks comes here then: it had passed through.
    if ((state_.load(std::memory_order_relaxed) & kForFork) != 0) return;
    if ((state_.exchange(kFree, std::memory_order_release) & kContended) != 0) Wait(FUTEX_WAKE, 1);
  }
  void Wait(int op, uint32_t value) {
    const int before = errno;
    syscall(SYS_futex, &state_, op | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
    errno = before;
  }

  std::atomic<uint32_t> state_{kFree};
};

template <class LockType>
struct LockedBy {
  static_assert(
      requires(LockType& l) {
        l.lock();
        l.unlock();
      }, "LockedBy: a lock is what has lock() and unlock()");

  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = true;

    using Through<Below>::Through;

    void* allocate(size_t size) {
      Hold hold(lock_);
      return this->next_.allocate(size);
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      Hold hold(lock_);
      return this->next_.allocate(size, align);
    }
    void deallocate(void* p, size_t size) {
      Hold hold(lock_);
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      Hold hold(lock_);
      this->next_.deallocate(p);
    }
    size_t size_of(void* p)
      requires SizedHeap<Below>
    {
      Hold hold(lock_);
      return this->next_.size_of(p);
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      Hold hold(lock_);
      return this->next_.resize(p, size);
    }
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      Hold hold(lock_);
      return this->next_.remap(p, size);
    }
    // Neighbours of a block may be freed meanwhile, and some heaps note that in the block's tag.
    bool reads_zero(void* p)
      requires ZeroKnowingHeap<Below>
    {
      Hold hold(lock_);
      return this->next_.reads_zero(p);
    }
    bool owns(const void* p) const
      requires OwningHeap<Below>
    {
      Hold hold(lock_);
      return this->next_.owns(p);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      Hold hold(lock_);
      this->next_.clear();
    }
    template <class F>
    void visit_locks(F&& f) {
      f(lock_);
      Through<Below>::visit_locks(f);
    }
    LockType& lock() { return lock_; }

   private:
    struct Hold {
      explicit Hold(LockType& l) : held(l) { held.lock(); }
      ~Hold() { held.unlock(); }
      Hold(const Hold&) = delete;
      Hold& operator=(const Hold&) = delete;
      LockType& held;
    };

    mutable LockType lock_;
  };
};

using Locked = LockedBy<FutexLock>;

}  // namespace strata::layers
