// The tier between the caches and the central free lists: for each size class a stack of objects
// that moves whole batches with one memcpy, so that a thread which only frees feeds one which only
// allocates without touching spans. Sits in cache. (domain_transfer_cache.h puts smaller ones over
// this one.)
//
// Thread-safe: one lock per class, dropped before the central list is called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "span/size_classes.h"

namespace strata {

// Central: size_t Take(SizeClass, void**, n); void Give(SizeClass, void* const*, n).
// Holds 1/kDivisor of what the shared one does.
template <class Central, size_t kDivisor = 1>
class TransferCache {
 public:
  void Init(Central* central, MetadataArena* arena) {
    central_ = central;
    arena_ = arena;
  }

  // Fewer than n only when memory is short.
  size_t Take(SizeClass c, void** out, size_t n) {
    Stack& s = stacks_[Raw(c)];
    if (s.used.load(std::memory_order_relaxed) != 0) {
      LockHolder hold(s.lock);
      const size_t have = s.used.load(std::memory_order_relaxed);
      const size_t take = have < n ? have : n;
      const size_t left = have - take;
      if (take != 0) {
        memcpy(out, s.objects + left, take * sizeof(void*));
        s.used.store(static_cast<uint32_t>(left), std::memory_order_relaxed);
        if (left < s.low_water) s.low_water = static_cast<uint32_t>(left);
        return take;
      }
    }
    return central_->Take(c, out, n);
  }

  void Give(SizeClass c, void* const* objects, size_t n) {
    Stack& s = stacks_[Raw(c)];
    const size_t capacity = CapacityOf(c);
    if (s.used.load(std::memory_order_relaxed) + n <= capacity) {
      LockHolder hold(s.lock);
      const size_t have = s.used.load(std::memory_order_relaxed);
      if (have + n <= capacity && EnsureObjects(s, capacity)) {
        memcpy(s.objects + have, objects, n * sizeof(void*));
        s.used.store(static_cast<uint32_t>(have + n), std::memory_order_relaxed);
        return;
      }
    }
    central_->Give(c, objects, n);
  }

  // Sends down what lay unused since the last call (or everything): called by the background
  // thread.
  void Plunder(SizeClass c, bool everything) {
    Stack& s = stacks_[Raw(c)];
    size_t excess;
    {
      LockHolder hold(s.lock);
      excess = everything ? s.used.load(std::memory_order_relaxed) : s.low_water;
      s.low_water = s.used.load(std::memory_order_relaxed);
    }
    void* batch[kMaxBatch];
    while (excess != 0) {
      size_t n;
      {
        LockHolder hold(s.lock);
        const size_t have = s.used.load(std::memory_order_relaxed);
        n = have < excess ? have : excess;
        if (n > kMaxBatch) n = kMaxBatch;
        // From the bottom: the longest unused.
        if (n != 0) {
          memcpy(batch, s.objects, n * sizeof(void*));
          memmove(s.objects, s.objects + n, (have - n) * sizeof(void*));
          s.used.store(static_cast<uint32_t>(have - n), std::memory_order_relaxed);
          if (have - n < s.low_water) s.low_water = static_cast<uint32_t>(have - n);
        }
      }
      if (n == 0) return;
      central_->Give(c, batch, n);
      excess -= n;
    }
  }

  size_t used(SizeClass c) const { return stacks_[Raw(c)].used.load(std::memory_order_relaxed); }
  Lock& lock(SizeClass c) { return stacks_[Raw(c)].lock; }

  // Up to 32 batches within 192 KiB, but at least two batches: there are some sixty classes of
  // small objects, and what lies here is of use to one of them only.
  static constexpr size_t CapacityOf(SizeClass c) {
    const ClassInfo& info = InfoOf(c);
    const size_t by_bytes = (192 << 10) / info.size;
    const size_t by_batches = size_t{info.batch} * 32;
    const size_t n = (by_bytes < by_batches ? by_bytes : by_batches) / kDivisor;
    return n < size_t{info.batch} * 2 ? size_t{info.batch} * 2 : n;
  }

 private:
  struct alignas(64) Stack {
    Lock lock{LockRank::kTransfer};
    std::atomic<uint32_t> used{0};  // written under lock
    uint32_t low_water = 0;         // least of `used` since the last Plunder
    void** objects = nullptr;       // made on first use
  };

  bool EnsureObjects(Stack& s, size_t capacity) {
    if (s.objects == nullptr)
      s.objects = static_cast<void**>(arena_->Allocate(capacity * sizeof(void*), 64));
    return s.objects != nullptr;
  }

  Central* central_ = nullptr;
  MetadataArena* arena_ = nullptr;
  Stack stacks_[kMaxClasses];
};

}  // namespace strata
