// Free memory that a live block keeps from being given back: its share of the free bytes on the
// pages of its span where objects lie, and of the free pages of its hugepage. All blocks of a span
// or hugepage bear the same share, so that the sum over them is what is free there. Sits in
// profile; the heap knows the figures, the fragmentation profile shows them.
#pragma once

#include <cstdint>
#include <limits>

namespace strata {

struct PinnedBytes {
  double in_span = 0;
  double in_hugepage = 0;
};

// How the profile asks the heap. `ask` may take the heap's locks, all of which come after the
// sampler's. `most`: what is free in all spans and hugepages in use, which few samples may
// overestimate.
struct PinnedBytesOf {
  PinnedBytes (*ask)(void* heap, uintptr_t address) = nullptr;
  void* heap = nullptr;
  PinnedBytes most = {std::numeric_limits<double>::infinity(),
                      std::numeric_limits<double>::infinity()};
};

}  // namespace strata
