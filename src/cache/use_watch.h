// What the background thread remembers of a vCPU's slab from one look to the next: whether anything
// was pushed or popped there, and in which classes. Sits in cache; part of a vCPU's record
// (cache/vcpu.h).
//
// A class's word counts its pops and holds its fill, so that each push and pop changes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cache/miss_counts.h"
#include "cache/slab.h"
#include "span/size_classes.h"

namespace strata {

// Used by one thread.
class IdleWatch {
 public:
  // True at each `ticks`-th look in a row that finds the slab as the one before left it.
  bool Look(Slab& slab, uint32_t ticks) {
    uint64_t mark = 0;
    for (size_t c = 1; c < kNumClasses; ++c) {
      // An odd multiplier per class, so that opposite changes in two classes do not cancel.
      mark +=
          slab.header(static_cast<SizeClass>(c)).word.load(std::memory_order_relaxed) * (2 * c + 1);
    }
    if (mark != mark_) {
      mark_ = mark;
      idle_ = 0;
      return false;
    }
    if (++idle_ < ticks) return false;
    idle_ = 0;
    return true;
  }

 private:
  uint64_t mark_ = 0;
  uint32_t idle_ = 0;
};

// Used by one thread at a time.
class ClassUse {
 public:
  void Remember(Slab& slab, const MissCounts& misses) {
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      word_[i] = slab.header(c).word.load(std::memory_order_relaxed);
      misses_[i] = misses.both(c);
    }
  }
  // All three: since what was remembered.
  bool Missed(const MissCounts& misses, SizeClass c) const {
    return misses.both(c) != misses_[Raw(c)];
  }
  bool Used(Slab& slab, const MissCounts& misses, SizeClass c) const {
    return slab.header(c).word.load(std::memory_order_relaxed) != word_[Raw(c)] ||
           Missed(misses, c);
  }
  uint64_t MissesOfAll(const MissCounts& misses) const {
    uint64_t sum = 0;
    for (size_t i = 1; i < kNumClasses; ++i)
      sum += misses.both(static_cast<SizeClass>(i)) - misses_[i];
    return sum;
  }

 private:
  uint64_t word_[kMaxClasses] = {};
  uint64_t misses_[kMaxClasses] = {};
};

}  // namespace strata
