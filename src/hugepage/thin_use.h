// Whether the program touches little of what it takes in small runs: pools and buffers of which it
// uses the start. A hugepage would make all of that resident, so there the filler's fresh hugepages
// begin as single pages, and the collapser rebuilds those that are touched after all. A hugepage
// given at the first touch hides what was touched. So touch_survey.h asks once, when the small
// heap, which has no hugepages, is used up; and again, while the answer is yes, at every eighth
// hugepage. What was swapped out counts as not touched. A pure class, in hugepage.
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
    if (taken >= kLeastTaken && !ended_) likely_ = IsThin(touched, taken);
  }

  // For good: nobody can tell any more, or what begins as single pages would stay so.
  void End() {
    ended_ = true;
    likely_ = false;
  }

 private:
  static constexpr size_t kLeastTaken = 2 * kNativePerHugePage;

  bool likely_ = false;
  bool ended_ = false;
  size_t begun_ = 0;
  HugePageId watched_[kWatched] = {};
};

}  // namespace strata
