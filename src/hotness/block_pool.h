// Blocks come from here and go back: records by size of object, memory from the process's heap. One
// for the process. Sits in hotness.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/race_detector.h"
#include "base/units.h"
#include "hotness/block_directory.h"
#include "hotness/hot_block.h"
#include "hotness/hot_memory.h"
#include "os/page_bytes.h"
#include "span/size_classes.h"

namespace strata {

class BlockPool {
 public:
  constexpr BlockPool(MetadataArena& arena, const HotMemory& memory, BlockDirectory::Top& top)
      : arena_(arena), memory_(memory), directory_(arena, top) {}

  // With no object in it, known to the directory; null: no memory. object_bytes 0: one large
  // object.
  HotBlock* Take(HotShelf& shelf, uint32_t object_bytes, size_t bytes, HotHeap heap) {
    HotBlock* b = Record(object_bytes);
    if (b == nullptr) return nullptr;
    race_detector::After(this);  // of the record, and below of the memory
    bytes = RoundUp(bytes, kPageSize);
    const Hotness hotness = heap == HotHeap::kHot    ? Hotness::kHot
                            : heap == HotHeap::kCold ? Hotness::kCold
                                                     : Hotness::kMiddle;
    void* at = memory_.take(memory_.context, bytes, hotness);
    if (at == nullptr || !directory_.Set(reinterpret_cast<uintptr_t>(at), b)) {
      if (at != nullptr) memory_.give(memory_.context, at, bytes);
      race_detector::Before(this);
      Keep(b);
      return nullptr;
    }
    if (heap == HotHeap::kCold) Advise(at, bytes, PageAdvice::kNoHuge);
    for (uint32_t i = 0; i < Words(b->objects); ++i) b->free[i] = ~uint64_t{0};
    if (b->objects % 64 != 0) b->free[Words(b->objects) - 1] = (uint64_t{1} << b->objects % 64) - 1;
    b->used.store(0, std::memory_order_relaxed);
    b->top.store(0, std::memory_order_relaxed);
    b->hint = 0;
    b->paged_out = b->draining = false;
    b->bytes.store(bytes, std::memory_order_relaxed);
    b->shelf.store(&shelf, std::memory_order_relaxed);
    b->base.store(reinterpret_cast<uintptr_t>(at), std::memory_order_release);
    race_detector::After(this);
    race_detector::Before(b);
    return b;
  }

  // Out of its shelf and empty.
  void Give(HotBlock* b, HotHeap heap) {
    race_detector::After(b);
    race_detector::Before(this);
    const uintptr_t at = b->base.load(std::memory_order_relaxed);
    const size_t bytes = b->bytes.load(std::memory_order_relaxed);
    directory_.Clear(at);
    b->base.store(0, std::memory_order_release);
    if (heap == HotHeap::kCold) {
      // What was paged out must not be read back to be forgotten.
      Advise(reinterpret_cast<void*>(at), bytes, PageAdvice::kFree);
      Advise(reinterpret_cast<void*>(at), bytes, PageAdvice::kHuge);
    }
    memory_.give(memory_.context, reinterpret_cast<void*>(at), bytes);
    Keep(b);
  }

  bool Advise(void* at, size_t bytes, PageAdvice advice) {
    return memory_.advise(memory_.context, at, RoundDown(bytes, KernelPageBytes()), advice);
  }

  HotBlock* Find(uintptr_t address) const { return directory_.Find(address); }
  const HotMemory& memory() const { return memory_; }
  MetadataArena& arena() { return arena_; }
  Lock& lock() { return lock_; }

 private:
  static constexpr uint32_t Words(uint32_t objects) { return (objects + 63) / 64; }
  static size_t ListOf(uint32_t object_bytes) {
    return object_bytes == 0 ? 0 : Raw(ClassOfSize(object_bytes));
  }

  HotBlock* Record(uint32_t object_bytes) {
    {
      LockHolder hold(lock_);
      HotBlock*& spare = spare_[ListOf(object_bytes)];
      if (HotBlock* b = spare) {
        spare = b->next_spare;
        return b;
      }
    }
    auto* b = arena_.New<HotBlock>();
    if (b == nullptr) return nullptr;
    b->object_bytes = object_bytes;
    b->objects = object_bytes == 0 ? 1 : static_cast<uint32_t>(HotBlock::kBytes / object_bytes);
    b->reciprocal = object_bytes == 0 ? 0 : ((uint64_t{1} << 40) + object_bytes - 1) / object_bytes;
    b->owners = static_cast<OwnerWord*>(arena_.Allocate(b->objects * sizeof(OwnerWord)));
    b->free = static_cast<uint64_t*>(arena_.Allocate(Words(b->objects) * sizeof(uint64_t)));
    return b->owners == nullptr || b->free == nullptr ? nullptr : b;
  }
  void Keep(HotBlock* b) {
    LockHolder hold(lock_);
    HotBlock*& spare = spare_[ListOf(b->object_bytes)];
    b->next_spare = spare;
    spare = b;
  }

  MetadataArena& arena_;
  const HotMemory& memory_;
  BlockDirectory directory_;
  Lock lock_{LockRank::kHotPool};
  HotBlock* spare_[kMaxClasses] STRATA_GUARDED_BY(lock_) = {};
};

}  // namespace strata
