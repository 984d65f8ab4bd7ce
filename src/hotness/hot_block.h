// A block: 2 MiB of objects of one size, or one large object, and who owns each. The owners stand
// in a table beside it, so that a look at all guides touches no object, and a page that was paged
// out stays out. Sits in hotness.
//
// An owner's word is 0 where there is no object, kNobody for one without an owner, kNobodyNow where
// one had been looked at by the collector, or the address of the guide, and bit 0 is a lock: who
// holds it may read that guide, for whoever wants to empty, move or free it, or give back the
// memory it lies in, has to take the lock first. So a guide that is gone is never read. This closes
// a gap of published code (OBASE, arXiv 2603.00378), where the collector reads guides that may have
// been freed.
//
// Records of blocks and their tables are never unmapped and serve blocks of one size for ever: a
// stale address leads to a record whose owners do not match.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/moment.h"
#include "base/units.h"
#include "hotness/guide.h"

namespace strata {

struct HotShelf;

class OwnerWord {
 public:
  static constexpr uintptr_t kFree = 0, kLock = 1, kNobody = 2, kRetired = 4, kTags = 7;
  static constexpr uintptr_t kNobodyNow = kNobody | 8;

  uintptr_t Load() const { return word_.load(std::memory_order_acquire); }
  void Store(uintptr_t w) { word_.store(w, std::memory_order_release); }
  static bool IsGuide(uintptr_t w) { return w != 0 && (w & kTags) == 0; }
  static bool IsNobody(uintptr_t w) { return (w | kNobodyNow) == kNobodyNow && w != kFree; }

  // Takes the lock if the word is `expected`, which has it not. acquire: what its last holder did.
  bool TryLock(uintptr_t expected) {
    return word_.compare_exchange_strong(expected, expected | kLock, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  // Takes it whatever the word is; returns that. Held for the copy of one object at the most.
  uintptr_t Lock() {
    for (unsigned n = 0;; ++n) {
      const uintptr_t w = word_.load(std::memory_order_relaxed);
      if ((w & kLock) == 0 && TryLock(w)) return w;
      WaitBriefly(n);
    }
  }
  void Unlock(uintptr_t w) { Store(w); }

 private:
  std::atomic<uintptr_t> word_{0};
};
static_assert(sizeof(OwnerWord) == 8);

struct HotBlock {
  static constexpr size_t kBytes = kHugePageSize;

  // For ever.
  uint32_t object_bytes = 0;  // 0: one large object of `bytes`
  uint32_t objects = 0;
  uint64_t reciprocal = 0;  // ceil(2^40 / object_bytes)
  OwnerWord* owners = nullptr;
  uint64_t* free = nullptr;  // a bit for each object; under the shelf's lock

  std::atomic<uintptr_t> base{0};  // 0: in no use
  std::atomic<HotShelf*> shelf{nullptr};
  std::atomic<size_t> bytes{0};
  std::atomic<uint32_t> used{0};  // objects; written under the shelf's lock
  std::atomic<uint32_t> top{0};   // no object at or above was ever made
  uint32_t hint = 0;              // no object below is free; under the shelf's lock
  HotBlock* next = nullptr;  // of the shelf; changed by the collector, and by who puts one first
  HotBlock* next_spare = nullptr;
  // Under the shelf's lock.
  bool paged_out = false;  // and nothing has come in since
  bool draining = false;   // nothing comes in until the round is over

  // Where the object at `address` stands in the tables; `objects` if none starts there.
  uint32_t IndexOf(uintptr_t address) const {
    const uintptr_t offset = address - base.load(std::memory_order_relaxed);
    if (object_bytes == 0) return offset == 0 ? 0 : objects;
    if (offset >= kBytes) return objects;
    const auto i = static_cast<uint32_t>(offset * reciprocal >> 40);
    return i < objects && uintptr_t{i} * object_bytes == offset ? i : objects;
  }
  uintptr_t AddressOf(uint32_t i) const {
    return base.load(std::memory_order_relaxed) + uintptr_t{i} * object_bytes;
  }
  size_t SizeOfObjects() const {
    return object_bytes != 0 ? object_bytes : bytes.load(std::memory_order_relaxed);
  }
};

}  // namespace strata
