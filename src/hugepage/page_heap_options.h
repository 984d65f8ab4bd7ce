// What a page heap is told at its start: how long demand looks back, whether it gives back at all.
// Sits in hugepage, beside page_heap.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/placement_group.h"

namespace strata {

struct PageHeapOptions {
  bool release = true;          // in Tick; ReleaseNow always does
  bool prompt_release = false;  // of large runs at their free, too (prompt_release.h)
  bool ticks = true;            // whether Tick will be called
  uint32_t busy_short_ms = 10'000;
  uint32_t busy_long_ms = 30'000;
  uint32_t peak_ms = 30'000;
  uint32_t idle_ms = 3'000;
  bool hugepages = true;
  HugePages small_heap{16};  // not asked to be hugepages: below 32 MiB they gain nothing
  FillerGroups filler_groups = FillerGroups::kAsSaid;
  size_t hard_limit_bytes = 0;  // of backed memory, as SetHardLimit takes it
};

}  // namespace strata
