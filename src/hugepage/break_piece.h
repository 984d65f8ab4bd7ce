// One hugepage's part of a release: what is noted under the page heap's lock before the kernel is
// asked, and what the kernel is then asked for without it. Sits in hugepage; the releaser uses it.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_bitmap.h"
#include "hugepage/page_tiers.h"
#include "os/page_kernel.h"

namespace strata {

struct BreakPiece {
  HugePageId page;
  PageBitmap<kPagesPerHugePage> pages;  // to release; for the releaser's own use
  bool mark = false;                    // advise the kernel against a hugepage here
  bool split = false;                   // the kernel has not taken it apart yet
  NativeRange used = {};                // something in it that stays; no bytes: nothing does
};

// Notes that a detached hugepage is to be broken, and what the kernel must do about it.
template <PageKernel Kernel>
void BeginBreaking(PageTiers<Kernel>& t, HugeTracker* tracker, BreakPiece* piece)
    STRATA_REQUIRES(t.lock) {
  piece->page = tracker->page();
  const size_t used = tracker->FirstUsedNative();
  if (used < kNativePerHugePage) {
    piece->used = {OffsetOf(tracker->page()) + used * kNativePageSize, kNativePageSize};
  }
  piece->split = !tracker->split && piece->used.bytes != 0;
  if (tracker->broken) return;
  t.filler.Change(tracker, [tracker] { tracker->broken = true; });
  piece->mark = t.MayMark() && t.Mark(t.map[tracker->page()]);
}

// Gives the ranges back, all in the piece's hugepage. False: the kernel refused.
template <PageKernel Kernel>
bool Break(PageTiers<Kernel>& t, const BreakPiece& piece, const NativeRange* ranges, size_t n)
    STRATA_EXCLUDES(t.lock) {
  // The advice comes first, so that the kernel's own thread does not rebuild the hugepage at once.
  if (piece.mark) t.kernel.AdviseNoHuge({piece.page, HugePages(1)});
  if (n != 0 && !t.kernel.Release(ranges, n)) return false;
  if (piece.split) t.kernel.SplitHugePage(piece.page, piece.used);
  return true;
}

}  // namespace strata
