// LockedWhenShared: Locked for a heap of a whole process, which takes its lock only once there is a
// second thread; glibc says so in a variable. A program without threads then pays two loads a call
// instead of two atomic exchanges.
//
// A call that began without the lock ends before a second thread can begin: a thread does not start
// others in here. Fork handlers take the lock in any case (visit_locks).
#pragma once

#include "strata/layers/thread/locked.h"
#include "strata/single_threaded.h"

namespace strata::layers {

struct LockedWhenShared {
  template <Heap Below>
  class On : public Through<typename Locked::template On<Below>> {
    using Shared = typename Locked::template On<Below>;

   public:
    using Through<Shared>::Through;

    void* allocate(size_t size) {
      if (alone()) [[likely]]
        return mine().allocate(size);
      return AllocateShared(size);
    }
    // Null in a process with threads: allocate() takes the lock.
    void* allocate_kept(size_t size)
      requires KeepingHeap<Below>
    {
      return alone() ? mine().allocate_kept(size) : nullptr;
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      return this->next_.allocate(size, align);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      if (alone()) [[likely]]
        return mine().deallocate(p);
      DeallocateShared(p);
    }
    void deallocate(void* p, size_t size) {
      if (alone()) return mine().deallocate(p, size);
      this->next_.deallocate(p, size);
    }
    bool reads_zero(void* p)
      requires ZeroKnowingHeap<Below>
    {
      return alone() ? mine().reads_zero(p) : this->next_.reads_zero(p);
    }

   private:
    static bool alone() { return IsSurelyAlone(); }
    Below& mine() { return this->next_.next(); }

    // Out of line, so that the calls above need no stack.
    [[gnu::noinline]] void* AllocateShared(size_t size) { return this->next_.allocate(size); }
    [[gnu::noinline]] void DeallocateShared(void* p) { this->next_.deallocate(p); }
  };
};

}  // namespace strata::layers
