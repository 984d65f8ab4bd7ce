// The part of PageHeap that rebuilds broken hugepages when they are nearly full again (Maas et al.,
// ISMM 2021), and those that a small heap began with. Included by page_heap.h only.
#pragma once

#include "hugepage/page_heap.h"

namespace strata {

// Detached, in address order, one beside the other.
template <PageKernel Kernel>
struct PageHeap<Kernel>::Neighbours {
  HugeTracker* tracker[kCollapseBatch];
  size_t n = 0;

  HugePageId first() const { return tracker[0]->page(); }
  HugePageId end() const { return first() + HugeLength(n); }
  void PushFront(HugeTracker* t) {
    std::copy_backward(tracker, tracker + n, tracker + n + 1);
    tracker[0] = t;
    ++n;
  }
};

// Native pages that rebuilding it would add.
inline size_t MissingNative(const HugeTracker& t) {
  return t.released() * kNativePerPage + t.gone();
}

template <PageKernel Kernel>
bool PageHeap<Kernel>::IsWorthRebuilding(const HugeTracker& t, const CollapseSearch& s) {
  return !t.empty() && MissingNative(t) <= kCollapseMissing && Length(t.released()) <= s.spare &&
         s.now_s >= t.collapse_after_s;
}

// The next to be rebuilt: first of all what a small heap began with, then the fullest.
template <PageKernel Kernel>
HugeTracker* PageHeap<Kernel>::FindForCollapse(CollapseSearch& s) {
  using L = TrackerLists;
  const HugeRange plain = allocator_.plain();
  for (HugePageId p = plain.first; p < plain.end(); p += HugeLength(1)) {
    const HugePageRecord& r = map_[p];
    if (r.plain && r.state == HugePageState::kFiller && !r.tracker->detached &&
        IsWorthRebuilding(*r.tracker, s))
      return r.tracker;
  }
  for (L::Kind kind : {L::kReleased, L::kDenseReleased, L::kPartial, L::kDensePartial}) {
    HugeTracker* t = filler_.Search(kind, s.now_s, s.steps,
                                    [&](const HugeTracker& c) { return IsWorthRebuilding(c, s); });
    if (t != nullptr) return t;
  }
  return nullptr;
}

template <PageKernel Kernel>
bool PageHeap<Kernel>::AddToCollapse(HugePageId page, CollapseSearch& s, Neighbours& found) {
  const HugePageRecord* r = map_.Find(page);
  if (r == nullptr || r->state != HugePageState::kFiller) return false;
  HugeTracker* t = r->tracker;
  if (!(t->broken || r->plain) || t->detached || !IsWorthRebuilding(*t, s)) return false;
  s.spare -= Length(t->released());
  filler_.Detach(t);
  if (found.n == 0 || page >= found.end()) {
    found.tracker[found.n++] = t;
  } else {
    found.PushFront(t);
  }
  return true;
}

template <PageKernel Kernel>
void PageHeap<Kernel>::FindNeighbours(CollapseSearch& s, Neighbours& found) {
  HugeTracker* t = FindForCollapse(s);
  if (t == nullptr) return;
  AddToCollapse(t->page(), s, found);
  while (found.n < kCollapseBatch && AddToCollapse(found.end(), s, found)) {
  }
  while (found.n < kCollapseBatch && found.first() != HugePageId(0) &&
         AddToCollapse(found.first() - HugeLength(1), s, found)) {
  }
}

// Rebuilds hugepages that are nearly full again, for a part of this tick. Free pages that this
// backs again are within what demand wants, or a working program's headroom; idle ones inside spans
// are few in each.
template <PageKernel Kernel>
void PageHeap<Kernel>::CollapseSome(Length wanted) {
  if (used_ < kCollapseHeap || tight_) return;
  const Length backed = Backed();
  const Length most =
      std::min(std::max(wanted, used_ + HeadroomOf(used_)), std::max(hard_limit_, backed));
  CollapseSearch search{Seconds(kernel_.CoarseNowNs()), kCollapseSteps,
                        most > backed ? most - backed : Length(0)};
  uint64_t worst = 0, begin = kernel_.NowNs();
  const uint64_t until = begin + kCollapseNs;
  while (begin < until) {
    Neighbours found;
    FindNeighbours(search, found);
    if (found.n == 0) break;
    CollapseAll(found, search.now_s);
    const uint64_t now = kernel_.NowNs();
    worst = std::max(worst, (now - begin) / found.n);
    begin = now;
  }
  if (worst != 0) collapse_pacer_.Report(worst);
}

// What the kernel did of a call that failed in part it does not say, so then each is tried by
// itself.
template <PageKernel Kernel>
void PageHeap<Kernel>::CollapseAll(const Neighbours& found, uint32_t now_s) {
  const HugeRange range{found.first(), HugeLength(found.n)};
  bool marked[kCollapseBatch], done[kCollapseBatch], advise = false;
  for (size_t i = 0; i < found.n; ++i) {
    const HugePageRecord& record = map_[found.tracker[i]->page()];
    marked[i] = record.no_huge;
    advise |= marked[i] || record.plain;
  }
  lock_.Release();
  if (advise) kernel_.AdviseHuge(range);
  const bool all = kernel_.Collapse(range);
  for (size_t i = 0; i < found.n; ++i) {
    const HugeRange one{range.first + HugeLength(i), HugeLength(1)};
    done[i] = all || (found.n > 1 && kernel_.Collapse(one));
    // Without the mark the kernel would fill the holes at the next fault.
    if (!done[i] && marked[i]) kernel_.AdviseNoHuge(one);
  }
  lock_.Acquire();
  for (size_t i = 0; i < found.n; ++i) {
    HugeTracker* t = found.tracker[i];
    if (done[i]) {
      HugePageRecord& record = map_[t->page()];
      if (marked[i]) --marked_;
      record.no_huge = record.plain = false;
      if (t->gone() != 0) rebuilt_in_use_.fetch_add(1, std::memory_order_relaxed);
      filler_.Change(t, [t] { t->NoteCollapsed(); });
      ++collapsed_total_;
    } else {
      t->collapse_after_s = now_s + kCollapseAgainS;
    }
    ReattachOrRetire(t);
  }
}

}  // namespace strata
