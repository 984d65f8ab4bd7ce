// Which broken hugepages are rebuilt first: the hottest, and of equally hot ones those that lack
// least. No kernel tells an unprivileged process what it accesses (PAGEMAP_SCAN knows what is
// there, not what was read), and sampling accesses costs the program, so heat is what the heap sees
// anyway: when runs were last taken from a hugepage, or memory inside them was. Pure; the collapser
// fills it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace strata {

struct RebuildCandidate {
  HugePageId page;
  uint32_t filled;   // the tick in which it last got fuller
  uint32_t missing;  // native pages
};

constexpr bool RebuildsBefore(const RebuildCandidate& a, const RebuildCandidate& b) {
  return a.filled != b.filled ? a.filled > b.filled : a.missing < b.missing;
}

// The first of all that were offered, and no more than there is room for.
class RebuildOrder {
 public:
  static constexpr size_t kMost = 64;

  bool empty() const { return n_ == 0; }
  void Clear() { n_ = 0; }

  void Offer(const RebuildCandidate& c) {
    if (n_ == kMost && !RebuildsBefore(c, last_first_[0])) return;
    size_t at = 0;  // behind those that come later
    while (at < n_ && RebuildsBefore(c, last_first_[at])) ++at;
    if (n_ == kMost) {
      std::copy(last_first_ + 1, last_first_ + at, last_first_);
      --at;
    } else {
      std::copy_backward(last_first_ + at, last_first_ + n_, last_first_ + n_ + 1);
      ++n_;
    }
    last_first_[at] = c;
  }
  RebuildCandidate TakeFirst() { return last_first_[--n_]; }

 private:
  RebuildCandidate last_first_[kMost];
  size_t n_ = 0;
};

}  // namespace strata
