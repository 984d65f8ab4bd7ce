// From any address to the record of its huge page, without a lock: two levels, the second of 13
// bits, over the addresses of a program. Foreign addresses lead to null. Sits in lifetime beside
// the records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "base/metadata_arena.h"
#include "base/units.h"

namespace strata {

class HugeBlockPage;

class PageDirectory {
 public:
  constexpr PageDirectory() = default;
  PageDirectory(const PageDirectory&) = delete;
  PageDirectory& operator=(const PageDirectory&) = delete;

  HugeBlockPage* Find(uintptr_t p) const {
    if (p >> kAddressBits != 0) return nullptr;
    // acquire: the leaf and the record are seen as they were made.
    const Leaf* leaf = top_[p >> (kHugePageShift + kLeafBits)].load(std::memory_order_acquire);
    return leaf == nullptr ? nullptr : leaf->at[IndexOf(p)].load(std::memory_order_acquire);
  }

  // Makes room for the entries of a range; false: out of memory.
  bool Prepare(uintptr_t base, size_t bytes, MetadataArena& arena) {
    for (uintptr_t p = base; p < base + bytes; p += kHugePageSize) {
      std::atomic<Leaf*>& leaf = top_[p >> (kHugePageShift + kLeafBits)];
      if (leaf.load(std::memory_order_acquire) != nullptr) continue;
      Leaf* fresh = arena.New<Leaf>();
      if (fresh == nullptr) return false;
      // Two that come at once: the second's leaf stays unused, once in 16 GiB at most.
      Leaf* none = nullptr;
      leaf.compare_exchange_strong(none, fresh, std::memory_order_release,
                                   std::memory_order_relaxed);
    }
    return true;
  }
  void Set(uintptr_t base, HugeBlockPage* page) {
    top_[base >> (kHugePageShift + kLeafBits)]
        .load(std::memory_order_acquire)
        ->at[IndexOf(base)]
        .store(page, std::memory_order_release);
  }

 private:
  static constexpr size_t kAddressBits = arch::kAddressBits;
  static constexpr size_t kLeafBits = 13;
  struct Leaf {
    std::atomic<HugeBlockPage*> at[size_t{1} << kLeafBits] = {};
  };
  static size_t IndexOf(uintptr_t p) {
    return p >> kHugePageShift & ((size_t{1} << kLeafBits) - 1);
  }

  std::atomic<Leaf*> top_[size_t{1} << (kAddressBits - kHugePageShift - kLeafBits)] = {};
};

}  // namespace strata
