// Which freed large runs go back to the kernel at once rather than with a later tick. A program
// that grows frees each of its largest blocks once, such as the tables that a dictionary has
// outgrown; one that works in rounds frees and asks again, and would fault its memory in each time.
// Nobody can tell which it is at the first free. So an account is kept: what goes back, and how
// much memory is taken anew afterwards, for which it would have served. Once that is several times
// the largest run, no more goes back so, but for a larger one. glibc's threshold for mmap moves for
// the same reason. A pure class in hugepage; the page heap's lock guards it.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace strata {

class PromptRelease {
 public:
  explicit constexpr PromptRelease(bool on) : on_(on) {}

  // Whether a run of so many whole hugepages, just freed, goes back now.
  bool NoteFreed(HugePages n) {
    const HugePages largest = std::max(largest_, n);
    if (!on_ || regret_ > HugePages(kRegrets * largest.raw()) ||
        gone_ + n > HugePages(kAtOnce * largest.raw()))
      return false;
    largest_ = largest;
    gone_ += n;
    return true;
  }

  // Hugepages without memory were taken.
  void NoteFresh(HugePages n) {
    const HugePages back = std::min(n, gone_);
    gone_ -= back;
    regret_ += back;
  }

 private:
  // A table that doubles regrets all of its earlier sizes, twice the last; one that grows by half
  // three times.
  static constexpr size_t kRegrets = 4;
  static constexpr size_t kAtOnce = 2;

  const bool on_;
  HugePages largest_;  // that went back
  HugePages gone_;     // and were not wanted since
  HugePages regret_;
};

}  // namespace strata
