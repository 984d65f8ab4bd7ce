// What part of the per-CPU caches' memory is in no vCPU's limit, and how a vCPU in need claims it.
// Sits in cache, between the misses (cache/room_policy.h) and what moves limits
// (cache/limit_sharing.h).
//
// Invariant: the limits of all vCPUs and the pool together are at most the share times the vCPUs in
// use. So bytes leave the pool before a limit has them, and reach it after the limit gave them up.
#pragma once

#include <atomic>
#include <cstddef>

#include "cache/vcpu.h"

namespace strata {

// Thread-safe.
class LimitPool {
 public:
  // What each vCPU in use brings to the total. Written under the table's lock.
  size_t share() const { return share_.load(std::memory_order_relaxed); }
  void SetShare(size_t bytes) { share_.store(bytes, std::memory_order_relaxed); }

  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void Set(size_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }
  // Up to `most` bytes.
  size_t Take(size_t most) {
    size_t have = bytes();
    while (true) {
      const size_t take = have < most ? have : most;
      if (bytes_.compare_exchange_weak(have, have - take, std::memory_order_relaxed)) return take;
    }
  }

  // A vCPU that lent its part while it rested has it back at once, as far as nobody took it.
  void Claim(Vcpu& v) STRATA_REQUIRES(v.lock) { Raise(v, share()); }
  // As far as the pool goes.
  void Raise(Vcpu& v, size_t limit) STRATA_REQUIRES(v.lock) {
    if (v.limit() < limit && bytes() != 0) v.SetLimit(v.limit() + Take(limit - v.limit()));
  }

 private:
  std::atomic<size_t> share_{0};
  std::atomic<size_t> bytes_{0};
};

}  // namespace strata
