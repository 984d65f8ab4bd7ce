// What the domains of moving objects (strata/hot.h) did, all together. Sits in profile.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

struct HotnessStats {
  size_t domains = 0;  // now; the totals are of those that ended, too
  struct Heap {
    size_t objects = 0;
    size_t bytes = 0;
  } fresh, hot, cold;
  uint64_t rounds = 0;
  uint64_t moves = 0;
  uint64_t moved_bytes = 0;
  uint64_t promotions = 0;
  uint64_t demotions = 0;
  uint64_t aborted_in_use = 0;  // an operation used the object
  uint64_t aborted_used = 0;    // one began to while it was copied
  uint64_t aborted_no_memory = 0;
  uint64_t aborted_near_limit = 0;  // no memory was asked for
  uint64_t aborted() const {
    return aborted_in_use + aborted_used + aborted_no_memory + aborted_near_limit;
  }
  uint64_t epochs_given_up = 0;  // an operation did not end in time
  uint64_t paged_out_bytes = 0;
  uint64_t collector_ns = 0;
  uint64_t cold_after = 0;    // windows; the largest of the domains'
  double promotion_rate = 0;  // the largest
  double utilization = 0;     // the smallest
};

}  // namespace strata
