// Runs of memory that begin at a multiple of kUnit, so that a mask over the address of a block
// finds the record of its run: how a heap frees a block whose size nobody tells. The record lies a
// few cache lines into the run, and not in every run at the same place: the records of many runs
// would otherwise compete for the same few sets of every cache.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

// The first word of a run's record.
struct RunHeader {
  uint32_t object_size = 0;  // of the small objects that the run holds; 0: it is one large block
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
  // For a pointer into the first kUnit bytes of a run.
  static void* RecordOf(const void* p) {
    const uintptr_t base = BaseOf(p);
    return reinterpret_cast<void*>(base + (base / kUnit) % kPlaces * kLine);
  }
};

// A run that is one block. `bytes` is what was taken for it from below.
template <size_t kUnit>
struct LargeRun : RunHeader {
  using Run = AlignedRun<kUnit>;
  static constexpr size_t kOverhead = kUnit - Run::kRoom;

  static void* Begin(void* base, size_t bytes) {
    auto* record = ::new (Run::RecordOf(base)) LargeRun;
    record->bytes = bytes;
    return record->block();
  }
  char* block() { return reinterpret_cast<char*>(this) + Run::kRecord; }
  void* base() { return reinterpret_cast<void*>(Run::BaseOf(this)); }
  size_t room() { return bytes - static_cast<size_t>(block() - static_cast<char*>(base())); }

  size_t bytes = 0;
};

}  // namespace strata::layers
