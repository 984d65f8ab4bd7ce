// One virtual CPU's record beside its slab (cache/slab.h): its lock, how many bytes its classes
// have room for and may have room for, its misses, and what others remember about it. Sits in
// cache; cache/vcpu_table.h makes and finds the records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "cache/miss_counts.h"
#include "cache/slab.h"
#include "cache/use_watch.h"

namespace strata {

// Invariant: room() <= limit(), which are bytes; room is the sum over classes of room × size.
class Vcpu {
 public:
  Vcpu(size_t index, Slab& slab, size_t limit) : limit_(limit), index_(index), slab_(slab) {}

  size_t room() const { return room_.load(std::memory_order_relaxed); }
  size_t limit() const { return limit_.load(std::memory_order_relaxed); }
  uint64_t resizes() const { return resizes_.load(std::memory_order_relaxed); }
  // Bytes of room that the limit still allows.
  size_t left() const { return room() >= limit() ? 0 : limit() - room(); }

  void AddRoom(size_t bytes) STRATA_REQUIRES(lock) { Set(room_, room() + bytes); }
  void DropRoom(size_t bytes) STRATA_REQUIRES(lock) { Set(room_, room() - bytes); }
  void SetLimit(size_t bytes) STRATA_REQUIRES(lock) {
    if (bytes == limit()) return;
    Set(limit_, bytes);
    resizes_.store(resizes() + 1, std::memory_order_relaxed);
  }

  size_t index() const { return index_; }
  Slab& slab() const { return slab_; }

  Lock lock{LockRank::kCpuCache};
  // Of cache/room_policy.h: the class looked at last when room had to be found; misses at the
  // limit; an array that was to replace a smaller one when the thread moved to another vCPU.
  uint32_t clock_hand STRATA_GUARDED_BY(lock) = 1;
  uint32_t misses_at_limit STRATA_GUARDED_BY(lock) = 0;
  void** spare STRATA_GUARDED_BY(lock) = nullptr;
  size_t spare_capacity STRATA_GUARDED_BY(lock) = 0;
  MissCounts misses;
  // Of cache/limit_sharing.h.
  IdleWatch idle;      // background thread only
  ClassUse seen;       // under the table's lock
  bool rests = false;  // was drained because it idled, and did not fill up since; likewise

 private:
  static void Set(std::atomic<size_t>& n, size_t to) { n.store(to, std::memory_order_relaxed); }

  std::atomic<size_t> room_{0};
  std::atomic<size_t> limit_;
  std::atomic<uint64_t> resizes_{0};
  const size_t index_;
  Slab& slab_;
};

}  // namespace strata
