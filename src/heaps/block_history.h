// Who allocated a block and who freed it: a thread and the innermost frames of its stack, as the
// reports of memory errors print them. Sits in heaps, for the blocks that are watched:
// guard_pool.h, checked_blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

struct BlockEvent {
  static constexpr size_t kMostFrames = 12;

  uint32_t thread = 0;  // the kernel's number; 0: nothing happened yet
  uint32_t depth = 0;
  uintptr_t frames[kMostFrames] = {};
};

}  // namespace strata
