// Whether the program touches little of what it takes in small runs: pools and buffers of which it
// uses the start. A hugepage would make all of that resident, so there the filler's fresh hugepages
// begin as single pages, which touch_survey.h looks at now and then, and the collapser rebuilds
// those that are touched after all. Where hugepages are given at the first touch nothing tells any
// more, so it is asked when the small heap, which has none, is used up, and as long as it is so. A
// pure class, in hugepage.
#pragma once

#include <cstddef>

#include "base/units.h"

namespace strata {

class ThinUse {
 public:
  static constexpr size_t kWatched = 8;

  // Less than half.
  static bool IsThin(size_t touched, size_t taken) { return touched * 2 < taken; }

  bool likely() const { return likely_; }

  // A hugepage begins as single pages. True: a look is due, at those that began last.
  bool NoteBegun(HugePageId p) {
    if (!likely_) return false;
    watched_[begun_++ % kWatched] = p;
    return begun_ % kWatched == 0;
  }
  HugePageId watched(size_t i) const { return watched_[i]; }

  // What a look found, in native pages. Of too little nothing is concluded.
  void NoteLook(size_t touched, size_t taken) {
    if (taken >= kLeastTaken) likely_ = IsThin(touched, taken);
    begun_ = 0;
  }

 private:
  static constexpr size_t kLeastTaken = 2 * kNativePerHugePage;

  bool likely_ = false;
  size_t begun_ = 0;  // since the last look
  HugePageId watched_[kWatched] = {};
};

}  // namespace strata
