// Locked: one lock around every call, which makes any heap thread-safe. The lock is a parameter:
// anything with lock() and unlock(); by default a small one that spins a little and then sleeps.
#pragma once

#include <linux/futex.h>
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
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) LockSlow();
  }
  void unlock() {
    // release: pairs with the acquire in lock() and LockSlow().
    if (state_.exchange(kFree, std::memory_order_release) == kContended) Wait(FUTEX_WAKE, 1);
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2;

  [[gnu::noinline]] void LockSlow() {
    for (int i = 0; i < 100; ++i) {
      uint32_t expected = kFree;
      if (state_.load(std::memory_order_relaxed) == kFree &&
          state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire)) {
        return;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree)
      Wait(FUTEX_WAIT, kContended);
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
    // The caller's own block, which nobody else looks at.
    bool reads_zero(void* p) const
      requires ZeroKnowingHeap<Below>
    {
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
