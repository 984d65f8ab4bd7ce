// Which freed large runs go back to the kernel at once rather than with a later tick. A program
// that grows frees each of its largest blocks once, such as the tables that a dictionary has
// outgrown; one that works in rounds frees and asks again, and would fault its memory in each time.
// Nobody can tell which it is at the first free, so a run larger than any that was ever missed goes
// back, and is known from then on if a request comes for which it would have served. What that
// costs in all is bounded by the largest run, as with glibc's threshold for mmap, which moves
// likewise. A pure class in hugepage; the page heap's lock guards it.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace strata {

class PromptRelease {
 public:
  // Whether a run of so many whole hugepages, just freed, goes back now.
  bool NoteFreed(HugePages n) {
    if (n <= missed_) return false;
    released_ = std::max(released_, n);
    return true;
  }

  // No free hugepages were there for a request of n.
  void NoteMiss(HugePages n) {
    if (n <= released_) missed_ = std::max(missed_, n + n / 4);
  }

 private:
  HugePages released_;  // the most at once
  HugePages missed_;    // of what went back, and somewhat more: sizes vary
};

}  // namespace strata
