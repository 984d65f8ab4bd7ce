// What malloc does when a thread's stretch ends in a block too large to be guarded: it counts it,
// and pops it all the same. A stretch is one block of 128 KiB, so each of those would take the slow
// path, for a guard that it cannot have; nor does it use up the turn of a block that can. Sits in
// malloc, between fast_path.h and slow_path.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "malloc/background.h"
#include "malloc/checked.h"
#include "malloc/fast_path.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/predicted_path.h"
#include "malloc/runtime.h"
#include "profile/sample_countdown.h"

namespace strata {

// For a thread with slabs, of bytes that its stretch does not hold. False, with nothing counted,
// where more is to do than to count.
STRATA_ALWAYS_INLINE bool CountsUnguarded(ThreadState& t, size_t size) {
  if (size <= ProcessGuards::kMostBytes || size > kMaxClassSize) return false;
  if (t.scope != nullptr || Predicts() || Contexts() != 0 || Checks() || BackgroundLooks())
    return false;
  const Stretches allowed = StretchesForGuards();
  return allowed != Stretches::kNone &&
         t.countdown.SpendIfNothingDue(size, TheRuntime().sampler.rate(), allowed);
}

}  // namespace strata
