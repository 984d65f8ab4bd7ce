// A lock of four bytes that many hold to read or one holds to write, one for each node of a tree
// that is locked node by node. Who waits to write keeps new readers out, so that a stream of them
// cannot starve it. Not recursive.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/version_word.h"

namespace crest {

class ReadWriteLock {
 public:
  void LockShared() {
    for (Backoff backoff;; backoff.Wait()) {
      uint32_t now = word_.load(std::memory_order_relaxed);
      if ((now & (kWriter | kWaiting)) == 0 &&
          word_.compare_exchange_weak(now, now + kReader, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return;
      }
    }
  }
  void UnlockShared() { word_.fetch_sub(kReader, std::memory_order_release); }

  void Lock() {
    for (Backoff backoff;; backoff.Wait()) {
      uint32_t now = word_.load(std::memory_order_relaxed);
      if (now < kReader && (now & kWriter) == 0) {
        // Takes the mark of who waits away as well; another that waits sets it again.
        if (word_.compare_exchange_weak(now, kWriter, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
          return;
        }
      } else if ((now & kWaiting) == 0) {
        word_.compare_exchange_weak(now, now | kWaiting, std::memory_order_relaxed);
      }
    }
  }
  void Unlock() { word_.fetch_and(~kWriter, std::memory_order_release); }

  // From reading to writing, if nobody else reads. Two who waited for each other to stop reading
  // would wait for ever, so this one does not wait; on failure the caller still holds it to read.
  [[nodiscard]] bool TryUpgrade() {
    uint32_t now = word_.load(std::memory_order_relaxed);
    return (now & ~kWaiting) == kReader &&
           word_.compare_exchange_strong(now, (now & kWaiting) | kWriter, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kWriter = 1, kWaiting = 2, kReader = 4;
  std::atomic<uint32_t> word_{0};
};

}  // namespace crest
