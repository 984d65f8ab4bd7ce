// How often a free looks whether its object has the mark of those that are free (freed_mark.h).
// Sits in cache.
//
// The look reads the object, and a program that frees what it has not touched for long waits for
// memory there: without it, frees in random order from 50 MB take half the time. So reads are timed
// at frees that are on the slow path anyway, and where many wait, only those of every 16th page
// look, and mark. Programs mostly free what they have just used, and those look each time. Whoever
// does not look compares the object with the newest of its cache, which the sequence has at hand.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace strata {

// Any thread; counts may lose a step when two race. On a line of its own: frees on all CPUs read
// what lies beside it.
class alignas(64) MarkLooks {
 public:
  // A free looks if its object's address has none of these bits.
  static constexpr uint32_t kEach = 0;
  static constexpr uint32_t kSeldom = 15 << kPageShift;

  // Whether the free that asks is one to time.
  bool IsTimed() {
    const uint32_t n = asked_.load(std::memory_order_relaxed);
    asked_.store(n + 1, std::memory_order_relaxed);
    return n % kOneTimedOf == 0;
  }

  // Three readings of the clock, of which the last waited for an object that is being freed.
  // Returns kEach or kSeldom.
  uint32_t Note(uint64_t begin, uint64_t before, uint64_t after) {
    const auto clock = static_cast<int64_t>(before - begin);
    const auto read = static_cast<int64_t>(after - before);
    // By how many wait and not by how long: the thread may have been off its CPU.
    const uint32_t waits = Follow(waits_, read > clock + kWaitNs);
    const uint32_t noise = Follow(noise_, clock > read + kWaitNs);
    uint32_t looks = looks_.load(std::memory_order_relaxed);
    // A clock that ticks slowly differs as often to either side, and tells nothing.
    if (waits > kOne / 16 + 4 * noise) looks = kSeldom;
    if (waits < kOne / 32 + 2 * noise) looks = kEach;
    looks_.store(looks, std::memory_order_relaxed);
    return looks;
  }

 private:
  // Longer than a core's own caches take, and shorter than memory and most shared caches.
  static constexpr int64_t kWaitNs = 15;
  static constexpr uint32_t kOneTimedOf = 4;
  static constexpr uint32_t kOne = 1 << 16;
  static constexpr uint32_t kWeight = 64;

  // The share of the last kWeight or so, of kOne.
  static uint32_t Follow(std::atomic<uint32_t>& share, bool happened) {
    uint32_t now = share.load(std::memory_order_relaxed);
    now += (happened ? kOne / kWeight : 0) - now / kWeight;
    share.store(now, std::memory_order_relaxed);
    return now;
  }

  std::atomic<uint32_t> asked_{0};
  std::atomic<uint32_t> waits_{0};
  std::atomic<uint32_t> noise_{kOne / 32};  // until it is known
  std::atomic<uint32_t> looks_{kEach};
};

}  // namespace strata
