// Moves what lies in one large run into another by page tables instead of bytes: whole hugepages
// for a microsecond or two each, where a copy also touches memory that has to be zeroed first. For
// realloc of blocks that can't grow where they lie. One of the parts of the page heap; sits in
// hugepage.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "hugepage/page_tiers.h"

namespace strata {

template <PageKernel Kernel>
class PageMover {
 public:
  using Tiers = PageTiers<Kernel>;

  // A mapping that was moved never joins its new neighbours again, and the kernel allows 65,530.
  static constexpr size_t kMostMarked = 8000;

  explicit PageMover(size_t most_marked = kMostMarked) : most_marked_(most_marked) {}

  // How much was moved, from the start of `from`: those hugepages are nobody's afterwards. Drops
  // the lock around the kernel's call; both runs are the caller's.
  Pages Move(Tiers& t, PageRange from, PageRange to) STRATA_REQUIRES(t.lock) {
    const HugeRange source{HugePageOf(from.first), Movable(t, from, to)};
    if (source.length == HugePages(0)) return {};
    const HugePageId target = HugePageOf(to.first);
    ++t.moves;
    t.lock.Release();
    const HugePages moved = t.kernel.Move(source, target);
    t.lock.Acquire();
    if (t.moves != 0) --t.moves;  // a child forked by a handler meanwhile begins at none
    if (moved == HugePages(0)) return {};
    for (HugePageId p = target; p < target + moved; p += HugePages(1)) Mark(t.map[p]);
    // A free hugepage has the advice that it had when it was mapped.
    for (HugePageId p = source.first; p < source.first + moved; p += HugePages(1))
      STRATA_CHECK(!t.map[p].no_huge);
    t.large -= moved;
    t.cache.NoteGone(moved, t.CoarseNow());
    t.GiveMapped({source.first, moved});
    return PagesOf(moved);
  }

 private:
  // Moved memory keeps the advice that it had, so neither end may have been advised otherwise.
  static bool IsPlain(const Tiers& t, const HugePageRecord& r) STRATA_REQUIRES(t.lock) {
    return r.state == HugePageState::kLarge && !r.no_huge &&
           (!r.unadvised || t.allocator.small_heap_advised());
  }

  HugePages Movable(const Tiers& t, PageRange from, PageRange to) const STRATA_REQUIRES(t.lock) {
    const HugePages most(std::min(from.length, to.length) / kPagesInHugePage);
    const HugePageId source = HugePageOf(from.first), target = HugePageOf(to.first);
    size_t marked = marked_;
    HugePages n;
    for (; n < most; n += HugePages(1)) {
      const HugePageRecord& end = t.map[target + n];
      if (!IsPlain(t, t.map[source + n]) || !IsPlain(t, end)) break;
      if (!end.moved && ++marked > most_marked_) break;
    }
    return n;
  }

  void Mark(HugePageRecord& r) {
    if (!r.moved) ++marked_;
    r.moved = true;
  }

  const size_t most_marked_;
  size_t marked_ = 0;  // hugepages that something was moved to, ever
};

}  // namespace strata
