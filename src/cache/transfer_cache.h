// The tier between the caches and the central free lists: for each size class a stack of objects
// that moves whole batches with one memcpy, so that a thread which only frees feeds one which only
// allocates without touching spans. Sits in cache. (domain_transfer_cache.h puts smaller ones over
// this one.)
//
// Thread-safe: one lock per class, dropped before the central list is called, and one to make a
// class's stack, which forks take before those. A class's stack is made when it is first given
// objects: most programs use few classes, and the others take no memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "span/size_classes.h"

namespace strata {

// What DrainUnused sends down: what lay there unused since the last call, or everything.
enum class DrainScope : bool { kUnused, kAll };

// Central: size_t Take(SizeClass, void**, n); void Give(SizeClass, void* const*, n).
// Holds 1/kDivisor of what the shared one does.
template <class Central, size_t kDivisor = 1>
class TransferCache {
 public:
  void Init(Central* central, MetadataArena* arena) {
    central_ = central;
    arena_ = arena;
  }

  // Fewer than n when memory is short, or more would have to be taken off spans than the class does
  // at once: what lies free already moves in longer batches than what is new.
  size_t Take(SizeClass c, void** out, size_t n) {
    Stack* found = Find(c);
    if (found != nullptr && found->used.load(std::memory_order_relaxed) != 0) {
      Stack& s = *found;
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
    const size_t carved = InfoOf(c).carved;
    return central_->Take(c, out, n < carved ? n : carved);
  }

  void Give(SizeClass c, void* const* objects, size_t n) {
    const size_t capacity = CapacityOf(c);
    Stack* found = Made(c, capacity);
    if (found != nullptr && found->used.load(std::memory_order_relaxed) + n <= capacity) {
      Stack& s = *found;
      LockHolder hold(s.lock);
      const size_t have = s.used.load(std::memory_order_relaxed);
      if (have + n <= capacity) {
        memcpy(s.objects + have, objects, n * sizeof(void*));
        s.used.store(static_cast<uint32_t>(have + n), std::memory_order_relaxed);
        return;
      }
    }
    central_->Give(c, objects, n);
  }

  // Whether the object lies free here.
  bool Holds(SizeClass c, const void* object) {
    Stack* s = Find(c);
    if (s == nullptr) return false;
    LockHolder hold(s->lock);
    const size_t n = s->used.load(std::memory_order_relaxed);
    return std::find(s->objects, s->objects + n, object) != s->objects + n;
  }

  // Background thread, once a tick, and a small heap that takes spans; who is short of memory, all.
  void DrainUnused(SizeClass c, DrainScope scope) {
    Stack* s = Find(c);
    if (s == nullptr || s->used.load(std::memory_order_relaxed) == 0) return;
    size_t excess;
    {
      LockHolder hold(s->lock);
      excess = scope == DrainScope::kAll ? s->used.load(std::memory_order_relaxed) : s->low_water;
      s->low_water = s->used.load(std::memory_order_relaxed);
    }
    SendDown(*s, c, excess);
  }

  // Sends objects of the costly classes down, the largest first; so many that a caller is not held
  // up for long.
  void GiveUpCostly() {
    size_t left = kMostGivenUp;
    for (size_t i = kNumClasses; --i > 0 && left != 0;) {
      const auto c = static_cast<SizeClass>(i);
      if (!IsCostly(c)) continue;
      const size_t n = used(c) < left ? used(c) : left;
      if (n != 0) SendDown(*Find(c), c, n);
      left -= n;
    }
  }

  size_t used(SizeClass c) const {
    const Stack* s = Find(c);
    return s == nullptr ? 0 : s->used.load(std::memory_order_relaxed);
  }
  // Calls f(Lock&) for each.
  template <class F>
  void VisitLocks(F f) {
    f(making_);
    for (size_t c = 1; c < kNumClasses; ++c)
      if (Stack* s = Find(static_cast<SizeClass>(c))) f(s->lock);
  }

  // Up to 32 batches within 192 KiB, but at least two batches: there are some sixty classes of
  // small objects, and what lies here is of use to one of them only. Of a costly class 64 objects
  // within 4 MiB, which go before the heap grows (heaps/growth.h).
  static constexpr size_t CapacityOf(SizeClass c) {
    const ClassInfo& info = InfoOf(c);
    if (IsCostly(c)) return std::min<size_t>(64, (4 << 20) / info.size) / kDivisor;
    const size_t within = std::min<size_t>((192 << 10) / info.size, size_t{info.batch} * 32);
    return std::max(within / kDivisor, size_t{info.batch} * 2);
  }

 private:
  static constexpr size_t kMostGivenUp = 64;

  struct alignas(64) Stack {
    Lock lock{LockRank::kTransfer};
    std::atomic<uint32_t> used{0};  // written under lock
    uint32_t low_water = 0;         // least of `used` since the last DrainUnused
    void** objects = nullptr;
  };

  Stack* Find(SizeClass c) const {
    // acquire: pairs with the release in Make, so that the stack is seen whole.
    return stacks_[Raw(c)].load(std::memory_order_acquire);
  }
  // Null when memory is short.
  Stack* Made(SizeClass c, size_t capacity) STRATA_EXCLUDES(making_) {
    Stack* s = Find(c);
    return STRATA_LIKELY(s != nullptr) ? s : Make(c, capacity);
  }
  STRATA_NOINLINE Stack* Make(SizeClass c, size_t capacity) STRATA_EXCLUDES(making_) {
    LockHolder hold(making_);
    if (Stack* s = Find(c)) return s;
    void* memory = arena_->Allocate(sizeof(Stack) + capacity * sizeof(void*), alignof(Stack));
    if (memory == nullptr) return nullptr;
    auto* s = ::new (memory) Stack();
    s->objects = reinterpret_cast<void**>(s + 1);
    stacks_[Raw(c)].store(s, std::memory_order_release);
    return s;
  }

  // Up to so many, from the bottom: the longest unused.
  void SendDown(Stack& s, SizeClass c, size_t excess) {
    void* batch[kOnStack];
    while (excess != 0) {
      size_t n;
      {
        LockHolder hold(s.lock);
        const size_t have = s.used.load(std::memory_order_relaxed);
        n = have < excess ? have : excess;
        if (n > kOnStack) n = kOnStack;
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

  Central* central_ = nullptr;
  MetadataArena* arena_ = nullptr;
  Lock making_{LockRank::kTransfer};
  std::atomic<Stack*> stacks_[kMaxClasses] = {};  // written under the lock, read without
};

}  // namespace strata
