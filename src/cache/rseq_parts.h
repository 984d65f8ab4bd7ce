// What the restartable sequences of each architecture have in common (rseq_sequences.h). Sits in
// cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "cache/freed_mark.h"
#include "cache/mark_looks.h"

namespace strata {

// What the sequences need to know of the process; but for `looks` set once at start.
struct RseqSlabs {
  ptrdiff_t area_offset;
  ptrdiff_t index_offset;
  FreedMark mark = FreedMark::kNone;
  uint32_t looks = MarkLooks::kEach;  // which pushes look for the mark; any thread sets it
};

// The value a sequence returns by way of a label. gcc 12 takes the paths that leave an `asm goto`
// with outputs by label and by falling through for one where it can merge their results, and then
// returns an output that was never set; a value it can't see through keeps the paths apart.
template <class T>
STRATA_ALWAYS_INLINE T FromLabel(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Why a push was refused; see RseqPush.
enum class PushResult : uint8_t { kPushed, kNoRoom, kSuspect };

}  // namespace strata
