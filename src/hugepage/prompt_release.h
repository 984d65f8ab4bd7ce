// Which freed large runs go back to the kernel at once rather than with a later tick. A program
// that grows frees each of its largest blocks once, such as the tables that a dictionary has
// outgrown; one that works in rounds frees and asks again, and would fault its memory in each time.
// Nobody can tell which it is at the first free. So an account is kept: what goes back, and how
// much memory is taken anew afterwards, for which it would have served. Where that was several
// times a run's length lately, the run stays. glibc's threshold for mmap moves for the same reason.
// A pure class in hugepage; the page heap's lock guards it.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace strata {

class PromptRelease {
 public:
  explicit constexpr PromptRelease(bool on) : on_(on) {}

  // Whether a run of so many whole hugepages, just freed, goes back now.
  bool NoteFreed(HugePages n) {
    if (!on_ || regret_ > HugePages(kRegrets * n.raw()) || gone_ > n) return false;
    gone_ += n;
    return true;
  }

  // Hugepages without memory were taken.
  void NoteFresh(HugePages n) {
    const HugePages back = std::min(n, gone_);
    gone_ -= back;
    regret_ += back;
  }

  // Once a second: what is long ago counts less, by half in some 20 seconds.
  void Age() {
    gone_ -= HugePages((gone_.raw() + kAge - 1) / kAge);
    regret_ -= HugePages((regret_.raw() + kAge - 1) / kAge);
  }

 private:
  // A table that doubles regrets all of its earlier sizes, twice the last; one that grows by half
  // three times.
  static constexpr size_t kRegrets = 4;
  static constexpr size_t kAge = 32;

  const bool on_;
  HugePages gone_;  // that were not wanted since
  HugePages regret_;
};

}  // namespace strata
