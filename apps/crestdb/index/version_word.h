// The version word of a node that readers visit without locking it (Mao, Kohler, Morris, EuroSys
// 2012, section 4.5): a lock among writers, bits that say what is being done to the node, and one
// counter each of changes and splits done. A reader takes the word (Stable), reads the node, and
// takes what it read only if the word still says the same (Unchanged).
//
// Everything that a reader reads in a node is an atomic that it loads with acquire and the holder
// of the lock stores with release. So a reader that saw any part of a change also sees, afterwards,
// the mark that was made before it: no fence is needed, and ThreadSanitizer understands it.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace crest {

// Waits a little longer each time. The machine may have fewer processors than there are threads:
// who holds the lock may have to run before we go on.
class Backoff {
 public:
  void Wait() {
    if (++rounds_ < kSpins) {
      __builtin_ia32_pause();
    } else {
      sched_yield();
    }
  }

 private:
  static constexpr unsigned kSpins = 64;
  unsigned rounds_ = 0;
};

class VersionWord {
 public:
  using Version = uint64_t;

  // A version with no change under way. It may be locked: a holder that has not marked anything has
  // not changed anything either.
  Version Stable() const {
    for (Backoff backoff;; backoff.Wait()) {
      const Version now = word_.load(std::memory_order_acquire);
      if ((now & (kInserting | kSplitting)) == 0) return now;
    }
  }
  // Never of a deleted node, not even if it was when its version was taken: what leads there may
  // not have changed yet, and by now the keys may be elsewhere.
  bool Unchanged(Version since) const { return Same(word_.load(std::memory_order_acquire), since); }
  // Whether keys that belonged here when the word was `before` may belong elsewhere by `now`.
  static bool Split(Version before, Version now) {
    return ((now ^ before) & (kSplits | kSplitting)) != 0 || (now & kDeleted) != 0;
  }

  void Lock() {
    for (Backoff backoff;; backoff.Wait()) {
      Version now = word_.load(std::memory_order_relaxed);
      if ((now & kLocked) == 0 && Take(now)) return;
    }
  }
  // Locks the node unless it is, or becomes while we wait, another than the reader saw. Callers
  // that hold a lock already only ever ask for one further down.
  [[nodiscard]] bool LockIf(Version since) {
    for (Backoff backoff;; backoff.Wait()) {
      Version now = word_.load(std::memory_order_relaxed);
      if (!Same(now, since)) return false;
      if ((now & kLocked) == 0 && Take(now)) return true;
    }
  }

  // By the holder of the lock, before the change; the mark stays until Unlock.
  void MarkInserting() { Mark(kInserting); }
  void MarkSplitting() { Mark(kSplitting); }
  // The node is out of the tree for good.
  void MarkDeleted() { Mark(kDeleted); }

  void Unlock() {
    const Version now = word_.load(std::memory_order_relaxed);
    Version next = now & ~(kLocked | kInserting | kSplitting);
    if ((now & kInserting) != 0) {
      next = (next & ~kInserts) | ((next + kOneInsert) & kInserts);
    }
    if ((now & kSplitting) != 0) next += kOneSplit;  // the highest bits: it may wrap
    word_.store(next, std::memory_order_release);
  }

 private:
  static constexpr Version kLocked = 1, kInserting = 2, kSplitting = 4, kDeleted = 8;
  static constexpr Version kOneInsert = Version{1} << 8, kOneSplit = Version{1} << 40;
  static constexpr Version kInserts = kOneSplit - kOneInsert, kSplits = ~(kOneSplit - 1);

  static bool Same(Version now, Version since) {
    return ((now ^ since) & ~kLocked) == 0 && (now & kDeleted) == 0;
  }
  bool Take(Version& now) {
    return word_.compare_exchange_weak(now, now | kLocked, std::memory_order_acquire,
                                       std::memory_order_relaxed);
  }
  void Mark(Version bit) {
    word_.store(word_.load(std::memory_order_relaxed) | bit, std::memory_order_release);
  }

  std::atomic<Version> word_{0};
};

}  // namespace crest
