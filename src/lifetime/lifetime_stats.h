// What LLAMA's heap counts. Sums of the shards' counters, each read under its shard's lock. Sits in
// lifetime.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "lifetime/lifetime_ladder.h"

namespace strata {

struct LifetimeStats {
  // Huge pages now, by rung.
  size_t open_pages[kRungs] = {};
  size_t active_pages[kRungs] = {};
  size_t spare_pages = 0;  // empty ones that shards keep
  size_t live_blocks = 0;
  // Since the start.
  uint64_t pages_opened = 0;
  uint64_t pages_freed = 0;
  uint64_t deadlines_passed = 0;
  uint64_t promotions = 0;  // fewer than those: the longest has no rung above
  uint64_t demotions = 0;
  uint64_t recycled_blocks = 0;  // handed out on pages of a longer rung
  uint64_t recycled_spans = 0;   // partly free ones opened again
  uint64_t recycled_lines = 0;   // that were free in those

  // Without the spare ones.
  size_t huge_pages() const {
    size_t sum = 0;
    for (Rung r = 0; r < kRungs; ++r) sum += open_pages[r] + active_pages[r];
    return sum;
  }
  size_t held_bytes() const { return (huge_pages() + spare_pages) << kHugePageShift; }

  void Add(const LifetimeStats& o) {
    for (Rung r = 0; r < kRungs; ++r) {
      open_pages[r] += o.open_pages[r];
      active_pages[r] += o.active_pages[r];
    }
    spare_pages += o.spare_pages;
    live_blocks += o.live_blocks;
    pages_opened += o.pages_opened;
    pages_freed += o.pages_freed;
    deadlines_passed += o.deadlines_passed;
    promotions += o.promotions;
    demotions += o.demotions;
    recycled_blocks += o.recycled_blocks;
    recycled_spans += o.recycled_spans;
    recycled_lines += o.recycled_lines;
  }
};

}  // namespace strata
