// Asks the kernel how much of what lies in hugepages of the filler was touched, and sets what
// follows (thin_use.h). For those that began as single pages; a whole one is touched as a whole.
// Sits in hugepage; the page heap's lock guards it, and is held while the kernel is asked: about 16
// hugepages at most, each a few microseconds, once and then for every eighth that begins.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_tiers.h"
#include "hugepage/thin_use.h"
#include "os/page_kernel.h"

namespace strata {

template <PageKernel Kernel>
class TouchSurvey {
 public:
  using Tiers = PageTiers<Kernel>;

  explicit TouchSurvey(Tiers& t) : t_(t) {}

  // When the small heap is used up.
  void LookAtSmallHeap() STRATA_REQUIRES(t_.lock) {
    if (!t_.kernel.CanCollapse()) return t_.EndThinUse();
    const HugeRange r = t_.allocator.unadvised();
    for (HugePageId p = r.first; p < r.end(); p += HugePages(1)) {
      if (t_.map[p].unadvised) Count(p);
    }
    Conclude();
  }

  // At the last that began as single pages.
  void LookAgain() STRATA_REQUIRES(t_.lock) {
    for (size_t i = 0; i < ThinUse::kWatched; ++i) Count(t_.thin_use.watched(i));
    Conclude();
  }

 private:
  void Count(HugePageId p) STRATA_REQUIRES(t_.lock) {
    const HugeTracker* tracker = t_.InFiller(p);
    // One that is detached may be on its way to becoming whole.
    if (tracker == nullptr || tracker->detached || t_.IsAdvised(p)) return;
    unsigned char resident[kNativePerHugePage];
    if (!t_.kernel.Resident(p, resident)) {
      untold_ = true;
      return;
    }
    touched_ += tracker->TouchedInUse(resident);
    taken_ += tracker->NativeInUse();
  }
  void Conclude() STRATA_REQUIRES(t_.lock) {
    if (untold_) return t_.EndThinUse();
    t_.thin_use.NoteLook(touched_, taken_);
    if (t_.thin_use.likely()) {
      t_.allocator.LeaveSmallHeap();
    } else {
      t_.allocator.EndLeavingSmallHeap();
    }
  }

  Tiers& t_;
  size_t touched_ = 0, taken_ = 0;  // native pages
  bool untold_ = false;             // of one at least the kernel says nothing
};

}  // namespace strata
