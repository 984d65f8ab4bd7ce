// How often a free looks whether its object has the mark of those that are free (freed_mark.h).
// Sits in cache.
//
// The look reads the object, and a program that frees what it has not touched for long waits for
// memory there: without it, frees in random order from 50 MB take half the time. So reads are
// timed at frees that are on the slow path anyway, and where many wait, only those of every 16th
// page look. Programs mostly free what they have just used, and those look each time. Whoever does
// not look compares the object with the newest of its cache, which the sequence has at hand.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace strata {

// Any thread; counts may lose a step when two race.
class MarkLooks {
 public:
  // A free looks if its object's address has none of these bits.
  static constexpr uint32_t kEach = 0;
  static constexpr uint32_t kSeldom = 15 << kPageShift;
  static constexpr uint32_t kOneTimedOf = 4;

  // Whether the free that asks is one to time.
  bool IsTimed() {
    const uint32_t n = asked_.load(std::memory_order_relaxed);
    asked_.store(n + 1, std::memory_order_relaxed);
    return n % kOneTimedOf == 0;
  }

  // How long it took to read the clock, an object that is being freed, and the clock again. Returns
  // kEach or kSeldom.
  uint32_t Note(uint64_t ns) {
    // The least is what the clock takes.
    const uint64_t least = std::min(least_.load(std::memory_order_relaxed), ns);
    least_.store(least, std::memory_order_relaxed);
    // By how many wait and not by how long: the thread may have been off its CPU.
    const uint32_t now = ns - least > kWaitNs ? kOne : 0;
    uint32_t share = share_.load(std::memory_order_relaxed);
    share = share - share / kWeight + now / kWeight;
    share_.store(share, std::memory_order_relaxed);
    uint32_t looks = looks_.load(std::memory_order_relaxed);
    if (share > kOne / 16) looks = kSeldom;
    if (share < kOne / 32) looks = kEach;
    looks_.store(looks, std::memory_order_relaxed);
    return looks;
  }

 private:
  static constexpr uint64_t kWaitNs = 15;  // more than what any cache of the CPU's own takes
  static constexpr uint32_t kOne = 1 << 16;
  static constexpr uint32_t kWeight = 64;

  std::atomic<uint32_t> asked_{0};
  std::atomic<uint64_t> least_{UINT64_MAX};
  std::atomic<uint32_t> share_{0};  // of those that waited, of kOne
  std::atomic<uint32_t> looks_{kEach};
};

}  // namespace strata
