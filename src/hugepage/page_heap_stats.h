// The page heap's numbers about itself, as one snapshot. Bytes unless the name says otherwise.
#pragma once

#include <cstddef>

namespace strata {

struct PageHeapStats {
  struct Filler {
    size_t hugepages = 0, used = 0, free = 0 /* backed */, released = 0,
           untouched = 0 /* of free, never written */;
    size_t in_use_released = 0;  // given back inside runs in use
    size_t regular = 0, donated = 0, partly_released = 0, all_released = 0, dense = 0,
           sparse = 0;  // hugepages
    size_t slack = 0, abandoned = 0;
  } filler;
  struct Cache {
    size_t hugepages = 0, limit = 0, hits = 0, misses = 0;
  } cache;
  struct Region {
    size_t regions = 0, used = 0, free = 0 /* backed */, released = 0;
  } region;
  struct Allocator {
    size_t mapped = 0, free = 0;
  } allocator;
  size_t used = 0;            // in runs handed out
  size_t large = 0;           // of them: whole hugepages of large runs
  size_t free_backed = 0;     // in no run, and resident or about to be
  size_t backed = 0;          // what the hard limit counts
  size_t soft_hits = 0;       // times that the soft limit was near and memory went back for it
  size_t hard_failures = 0;   // requests that the hard limit refused
  size_t demand = 0;          // what the last tick expected to be wanted soon
  size_t marked_no_huge = 0;  // hugepages
  size_t released_total = 0, collapsed_total = 0;  // ever; bytes, hugepages
  size_t first_touch_ns = 0;                       // of a hugepage, by the last ones
  size_t cold_frames = 0;  // 1: it is dear, so growth begins as single pages
  size_t thin_use = 0;     // 1: little of what is taken is touched, with the same effect
};

// How full one hugepage is, in pages.
struct HugePageFill {
  size_t used = 0;
  size_t free_backed = 0;
};

}  // namespace strata
