// The part of PageHeap that rebuilds broken hugepages when they are nearly full again (papers
// §2.7), and those that a small heap began with. Included by page_heap.h only.
#pragma once

#include "hugepage/page_heap.h"

namespace strata {

// Detaches a few hugepages worth rebuilding: nearly full, not whole, and with at most `spare` pages
// released.
template <PageKernel Kernel>
size_t PageHeap<Kernel>::FindForCollapse(HugeTracker** out, uint32_t now_s, Length spare) {
  using L = TrackerLists;
  size_t n = 0, steps = kCollapseSteps;
  auto wanted = [&](const HugeTracker& t) {
    return Length(t.used()) >= kCollapseUsed && t.gone() < kCollapseGone &&
           Length(t.released()) <= spare && now_s >= t.collapse_after_s;
  };
  auto take = [&](HugeTracker* t, HugeFiller& filler) {
    spare -= Length(t->released());
    filler.Detach(t);
    out[n++] = t;
  };
  for (HugePageId p = allocator_.plain().first; p < allocator_.plain().end() && n < kCollapseBatch;
       p += HugeLength(1)) {
    const HugePageRecord& r = map_[p];
    if (!r.plain || r.state != HugePageState::kFiller || r.tracker->detached || r.tracker->empty())
      continue;
    if (wanted(*r.tracker)) take(r.tracker, filler_);
  }
  for (L::Kind kind : {L::kReleased, L::kDenseReleased, L::kPartial, L::kDensePartial}) {
    while (n < kCollapseBatch) {
      HugeTracker* t = filler_.Search(kind, now_s, steps, wanted);
      if (t == nullptr) break;
      take(t, filler_);
    }
  }
  return n;
}

// Rebuilds a few hugepages that are nearly full again, where demand wants their missing pages too.
template <PageKernel Kernel>
void PageHeap<Kernel>::CollapseSome(uint64_t now_ns, Length wanted) {
  const Length backed = Backed();
  if (used_ < kCollapseHeap || wanted < backed || tight_) return;
  const Length spare = std::min(std::max(hard_limit_, backed), wanted) - backed;
  const uint32_t now_s = static_cast<uint32_t>(now_ns / 1'000'000'000);
  HugeTracker* batch[kCollapseBatch];
  const size_t n = FindForCollapse(batch, now_s, spare);
  uint64_t worst = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t begin = kernel_.NowNs();
    if (CollapseOne(batch[i])) ++collapsed_total_;
    worst = std::max(worst, kernel_.NowNs() - begin);
    batch[i]->collapse_after_s = now_s + kCollapseAgainS;
    ReattachOrRetire(batch[i]);
  }
  if (n != 0) collapse_pacer_.Report(worst);
}

// A detached hugepage.
template <PageKernel Kernel>
bool PageHeap<Kernel>::CollapseOne(HugeTracker* t) {
  HugePageRecord& record = map_[t->page()];
  const HugeRange page{t->page(), HugeLength(1)};
  const bool marked = record.no_huge, advise = marked || record.plain;
  lock_.Release();
  if (advise) kernel_.AdviseHuge(page);
  const bool ok = kernel_.Collapse(page.first);
  // Without the mark the kernel would fill the holes at the next fault.
  if (!ok && marked) kernel_.AdviseNoHuge(page);
  lock_.Acquire();
  if (!ok) return false;
  if (marked) --marked_;
  record.no_huge = record.plain = false;
  if (t->gone() != 0) rebuilt_in_use_.fetch_add(1, std::memory_order_relaxed);
  filler_.Change(t, [t] { t->NoteCollapsed(); });
  return true;
}

}  // namespace strata
