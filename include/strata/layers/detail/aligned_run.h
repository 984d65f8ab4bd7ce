// Runs of memory that begin at a multiple of kUnit, so that a mask over the address of a block
// finds the record of its run: how a heap frees a block whose size nobody tells. The record lies a
// few cache lines into the run, and not in every run at the same place: the records of many runs
// would otherwise compete for the same few sets of every cache.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

// What a run's record begins with.
struct RunHeader {
  static constexpr uint32_t kLive = 0x5afe10ad;
  uint32_t object_size = 0;  // of the small objects that the run holds; 0: it is one large block
  uint32_t mark = kLive;     // what a run that was given back, and foreign memory, do not have
};

template <size_t kUnit>
struct AlignedRun {
  static_assert(IsPowerOfTwo(kUnit) && kUnit >= 4096);
  static constexpr size_t kLine = 64;
  static constexpr size_t kRecord = kLine;  // what a record may take
  static constexpr size_t kPlaces = kUnit / 4096 < 16 ? kUnit / 4096 : 16;
  // Behind the record, wherever it lies.
  static constexpr size_t kRoom = kUnit - (kPlaces - 1) * kLine - kRecord;

  static uintptr_t BaseOf(const void* p) {
    return reinterpret_cast<uintptr_t>(p) & ~uintptr_t{kUnit - 1};
  }
  // Of the unit that begins at base.
  static void* RecordAt(uintptr_t base) {
    return reinterpret_cast<void*>(base + base / kUnit % kPlaces * kLine);
  }
  // For the address of a block. One that begins a unit, which only an alignment to whole units
  // makes it do, has its record in the unit before.
  static RunHeader* RecordOf(const void* block) {
    return static_cast<RunHeader*>(RecordAt(BaseOf(static_cast<const char*>(block) - 1)));
  }
};

// A run that is one block.
template <size_t kUnit>
struct LargeRun : RunHeader {
  using Run = AlignedRun<kUnit>;
  static constexpr size_t kOverhead = kUnit - Run::kRoom;  // more with an alignment, by that

  // Of the bytes at base, at least kOverhead and the alignment more than the block's.
  static void* Begin(void* base, size_t bytes, size_t align = kDefaultAlignment) {
    const auto start = reinterpret_cast<uintptr_t>(Run::RecordAt(Run::BaseOf(base)));
    auto* block = reinterpret_cast<void*>(RoundUp(start + Run::kRecord, align));
    auto* record = ::new (static_cast<void*>(Run::RecordOf(block))) LargeRun;
    record->base = base;
    record->bytes = bytes;
    return block;
  }
  // What the block at p can hold.
  size_t RoomFrom(const void* p) const {
    return bytes - static_cast<size_t>(static_cast<const char*>(p) - static_cast<char*>(base));
  }

  void* base = nullptr;  // as it was taken from below
  size_t bytes = 0;
};

}  // namespace strata::layers
