// From an address to the block it lies in: two levels over the 2 MiB pieces of the address space.
// One for the process, as any object may be freed without its domain being named. Readers take no
// lock. The upper level, 64 KiB of zeros, is its owner's, so that it can lie where zeros take no
// room in the library's file nor, untouched, in memory. Sits in hotness.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/arch.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hotness/hot_block.h"

namespace strata {

class BlockDirectory {
 public:
  static constexpr uintptr_t kPieces = uintptr_t{1} << (arch::kAddressBits - kHugePageShift);
  static constexpr uintptr_t kLeaf = 8192;
  struct Leaf {
    std::atomic<HotBlock*> blocks[kLeaf];
  };
  struct Top {
    std::atomic<Leaf*> leaves[kPieces / kLeaf] = {};
  };

  constexpr BlockDirectory(MetadataArena& arena, Top& top) : arena_(arena), top_(top.leaves) {}

  HotBlock* Find(uintptr_t address) const {
    const uintptr_t piece = address >> kHugePageShift;
    if (piece >= kPieces) return nullptr;
    const Leaf* leaf = top_[piece / kLeaf].load(std::memory_order_acquire);
    return leaf == nullptr ? nullptr : leaf->blocks[piece % kLeaf].load(std::memory_order_acquire);
  }

  // False: no memory. Called for a block before anyone knows its address.
  bool Set(uintptr_t address, HotBlock* block) {
    const uintptr_t piece = address >> kHugePageShift;
    std::atomic<Leaf*>& top = top_[piece / kLeaf];
    Leaf* leaf = top.load(std::memory_order_acquire);
    if (leaf == nullptr) {
      auto* fresh = arena_.New<Leaf>();
      if (fresh == nullptr) return false;
      // The one that comes too late stays unused: there is one a 16 GiB at the most.
      if (top.compare_exchange_strong(leaf, fresh, std::memory_order_acq_rel)) leaf = fresh;
    }
    leaf->blocks[piece % kLeaf].store(block, std::memory_order_release);
    return true;
  }
  void Clear(uintptr_t address) {
    const uintptr_t piece = address >> kHugePageShift;
    Leaf* leaf = top_[piece / kLeaf].load(std::memory_order_acquire);
    leaf->blocks[piece % kLeaf].store(nullptr, std::memory_order_release);
  }

 private:
  MetadataArena& arena_;
  std::atomic<Leaf*>* const top_;
};

}  // namespace strata
