// From the address of a live block to its object number: a radix table over the address space, two
// levels deep, in memory of its own. No lock: an address is one thread's at any time, from the
// return of the call that gave it out to the call that takes it back. Sits in trace.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/arch.h"

namespace strata::trace {

class ObjectMap {
 public:
  constexpr ObjectMap() = default;
  ObjectMap(const ObjectMap&) = delete;
  ObjectMap& operator=(const ObjectMap&) = delete;

  // Without memory for it the block stays unknown.
  void Put(const void* p, uint64_t object) {
    const auto address = reinterpret_cast<uintptr_t>(p);
    uint64_t* leaf = LeafOf(address);
    if (leaf == nullptr) leaf = MakeLeaf(address);
    if (leaf != nullptr) leaf[Slot(address)] = object;
  }
  // The object at p, which is forgotten; 0: none is known.
  uint64_t Take(const void* p) {
    const auto address = reinterpret_cast<uintptr_t>(p);
    uint64_t* leaf = LeafOf(address);
    if (leaf == nullptr) return 0;
    const uint64_t object = leaf[Slot(address)];
    if (object != 0) leaf[Slot(address)] = 0;
    return object;
  }
  bool Has(const void* p) const {
    const auto address = reinterpret_cast<uintptr_t>(p);
    const uint64_t* leaf = LeafOf(address);
    return leaf != nullptr && leaf[Slot(address)] != 0;
  }
  // In a forked child, where no other thread is: all blocks of the parent become unknown.
  void Clear() {
    const uint32_t leaves = leaf_count_.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < leaves && i < kMostLeaves; ++i) {
      uint64_t* leaf = __atomic_exchange_n(&root_[leaves_[i]], nullptr, __ATOMIC_RELAXED);
      if (leaf != nullptr) munmap(leaf, kLeafBytes);
      leaves_[i] = 0;
    }
    leaf_count_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kAddressBits = arch::kAddressBits;
  static constexpr unsigned kLeafBits = 26;  // 64 MiB of addresses, of which few pages are touched
  static constexpr unsigned kGrainBits = 3;
  static constexpr size_t kLeafBytes = sizeof(uint64_t) << (kLeafBits - kGrainBits);
  static constexpr size_t kRoot = size_t{1} << (kAddressBits - kLeafBits);
  static constexpr size_t kMostLeaves = 1 << 16;  // that can be cleared: 4 TiB of addresses

  static size_t Slot(uintptr_t address) {
    return (address & ((uintptr_t{1} << kLeafBits) - 1)) >> kGrainBits;
  }
  uint64_t* LeafOf(uintptr_t address) const {
    const size_t i = address >> kLeafBits;
    // acquire: pairs with the release of whoever mapped the leaf.
    return i < kRoot ? __atomic_load_n(&root_[i], __ATOMIC_ACQUIRE) : nullptr;
  }
  uint64_t* MakeLeaf(uintptr_t address) {
    const size_t i = address >> kLeafBits;
    if (i >= kRoot || leaf_count_.load(std::memory_order_relaxed) >= kMostLeaves) return nullptr;
    void* fresh = mmap(nullptr, kLeafBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return nullptr;
    madvise(fresh, kLeafBytes, MADV_NOHUGEPAGE);
    uint64_t* expected = nullptr;
    if (!__atomic_compare_exchange_n(&root_[i], &expected, static_cast<uint64_t*>(fresh), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      munmap(fresh, kLeafBytes);
      return expected;
    }
    const uint32_t number = leaf_count_.fetch_add(1, std::memory_order_relaxed);
    if (number < kMostLeaves) leaves_[number] = static_cast<uint32_t>(i);
    return static_cast<uint64_t*>(fresh);
  }

  uint64_t* root_[kRoot] = {};  // atomic by use: clang will not make two million atomics at once
  uint32_t leaves_[kMostLeaves] = {};  // which roots are in use
  std::atomic<uint32_t> leaf_count_{0};
};

}  // namespace strata::trace
