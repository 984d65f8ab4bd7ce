// What a Hoard is made of and how it is set: the sizes, bounds and thresholds that a user may
// change, and those of libstrata-hoard.so.
#pragma once

#include "strata/layers/detail/hoard_bin.h"
#include "strata/layers/thread/index.h"

namespace strata::layers {

struct HoardOptions {
  size_t heaps = SIZE_MAX;  // processors' heaps; cut to what Traits has room for, as are the shards
  size_t shards = SIZE_MAX;  // of the global heap
  HoardThresholds thresholds;
};

// What a Hoard is made of; derive from it to change some.
template <size_t kUnit = 65536>
struct HoardTraits {
  static constexpr size_t superblock = kUnit;  // S
  static constexpr size_t heaps = 16;          // P, at most
  static constexpr size_t shards = 16;
  // Empty superblocks that are not given back, for each heap: of no class, and such as are the only
  // one that the heap has of their class, which a program that takes and frees one block needs.
  static constexpr size_t spares = 8;
  static constexpr size_t kept = 8;
  // The same of runs that are one block of up to 5/4 of a superblock, for each length, in quarters.
  static constexpr size_t large_spares = 0;
  // If so many superblocks are held, a heap borrows one that another does not fill before more are
  // held than ever; 0: it never does. Below, memory is too little to share cache lines for it.
  static constexpr size_t borrows_from = 0;
  static constexpr HoardThresholds thresholds{};  // unless HoardOptions say others
  using Classes = SuperblockClasses<kUnit>;
  using Which = CpuIndex;  // whose heap the caller uses
  using Sync = SystemSync;
  using Owner = RecheckedOwner;
};

// Those of libstrata-hoard.so. Superblocks are short, since each heap has one that is not full of
// every class it uses; f is a sixteenth, since what threads free of each other's comes to rest at
// just that share; and blocks that are too long for such superblocks have spares.
struct ProcessHoardTraits : HoardTraits<32768> {
  static constexpr size_t heaps = 32;  // CPUs beyond share them
  static constexpr size_t spares = 16;
  static constexpr size_t large_spares = 16;
  static constexpr size_t borrows_from = 16;
  static constexpr HoardThresholds thresholds{
      .empty_sixteenths = 1, .slack = 2, .slack_objects = 16};
};

}  // namespace strata::layers
