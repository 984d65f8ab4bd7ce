// What the page heap is asked for and what it hands out. Sits at the bottom of hugepage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/placement.h"
#include "base/units.h"

namespace strata {

struct PageRequest {
  Pages length;
  Pages align{1};  // a power of two, up to 512 hugepages
  Placement placement = {};
};

// Pages handed out; empty when memory is out.
struct PageRun {
  PageRange range;
  bool zeroed = false;  // every byte is known to read as zero
  // The first of a hugepage without memory, which its first touch backs as a whole.
  bool begins_hugepage = false;
};

// Some of the 64 native pages from an offset in the window on, by bit.
struct NativePages {
  size_t offset = 0;
  uint64_t pages = 0;
};

}  // namespace strata
