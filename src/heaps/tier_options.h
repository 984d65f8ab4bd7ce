// How the tiers above the page heap are set up, where there is a choice: the order of spans, for
// experiments, and what the heap has to know of CPUs. Sits in heaps.
#pragma once

#include <cstddef>

#include "span/span_lists.h"

namespace strata {

struct TierOptions {
  SpanOrder span_order = SpanOrder::kFullestFirst;
  size_t (*cpu_number)() = [] { return size_t{0}; };  // see LargeBlocks
};

}  // namespace strata
