// What malloc does when a thread's stretch ends and nothing is due: the block is counted, drawn for
// the guards, and popped at once. A stretch is one block of 128 KiB, or 32 of 4 KiB, so that many
// would take the whole slow path. Sits in malloc, between fast_path.h and slow_path.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "malloc/background.h"
#include "malloc/checked.h"
#include "malloc/fast_path.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/predicted_path.h"
#include "malloc/runtime.h"
#include "profile/sample_countdown.h"

namespace strata {

// For a thread with slabs, of bytes that its stretch does not hold: counts them. False, with
// nothing counted, where more is due than that and the draw.
STRATA_ALWAYS_INLINE bool OnlyCounts(ThreadState& t, size_t size) {
  if (size > kMaxClassSize) return false;
  if (t.scope != nullptr || Predicts() || Contexts() != 0 || Checks() || BackgroundIsDue())
    return false;
  const Stretches allowed = StretchesForGuards();
  return allowed != Stretches::kNone &&
         t.countdown.SpendIfNothingDue(size, TheRuntime().sampler.rate(), allowed);
}

}  // namespace strata
