// The part of PageHeap that tells about it. Included by page_heap.h only.
#pragma once

#include "hugepage/page_heap.h"

namespace strata {

template <PageKernel Kernel>
PageHeapStats PageHeap<Kernel>::Stats() const {
  LockHolder hold(lock_);
  using L = TrackerLists;
  PageHeapStats s;
  auto& f = s.filler;
  f.hugepages = filler_.hugepages();
  f.used = BytesOf(filler_.used());
  f.free = BytesOf(filler_.free_backed());
  f.released = BytesOf(filler_.released());
  f.in_use_released = filler_.gone_native() << kNativePageShift;
  f.untouched = BytesOf(filler_.untouched());
  f.donated = filler_.count(L::kDonated);
  f.partly_released = filler_.count(L::kPartial) + filler_.count(L::kDensePartial);
  f.all_released = filler_.count(L::kReleased) + filler_.count(L::kDenseReleased);
  f.regular = filler_.count(L::kRegular) + filler_.count(L::kDenseRegular);
  f.dense = filler_.count(L::kDenseRegular) + filler_.count(L::kDensePartial) +
            filler_.count(L::kDenseReleased);
  f.sparse = f.regular + f.donated + f.partly_released + f.all_released - f.dense;
  f.slack = BytesOf(filler_.slack());
  f.abandoned = BytesOf(filler_.abandoned());
  s.cache = {cache_.size().raw(), cache_.limit().raw(), cache_.hits(), cache_.misses()};
  for (const HugeRegion* g = regions_.first(); g != nullptr;
       g = IntrusiveList<HugeRegion>::Next(g)) {
    ++s.region.regions;
    s.region.released += BytesOf(HugeRegion::kSize) - BytesOf(g->backed());
  }
  s.region.used = BytesOf(region_used_);
  s.region.free = BytesOf(region_backed_ - region_used_);
  s.allocator = {BytesOf(allocator_.mapped()), BytesOf(allocator_.free())};
  s.used = BytesOf(used_);
  s.large = BytesOf(large_);
  s.free_backed = BytesOf(FreeBacked());
  s.backed = BytesOf(Backed());
  s.soft_hits = soft_hits_;
  s.hard_failures = hard_failures_;
  s.demand = BytesOf(last_demand_);
  s.marked_no_huge = marked_;
  s.released_total = released_total_;
  s.collapsed_total = collapsed_total_;
  return s;
}

template <PageKernel Kernel>
HugePageFill PageHeap<Kernel>::FillOf(HugePageId p) const {
  LockHolder hold(lock_);
  const HugePageRecord* r = map_.Find(p);
  if (r == nullptr) return {};
  if (r->state == HugePageState::kFiller) return {r->tracker->used(), r->tracker->free_backed()};
  if (r->state == HugePageState::kRegion && r->region->backed(p))
    return {r->region->used(p), kPagesPerHugePage - r->region->used(p)};
  return {};
}

template <PageKernel Kernel>
size_t PageHeap<Kernel>::GoneIn(NativeRange r) const {
  LockHolder hold(lock_);
  size_t gone = 0;
  ForEachPart(r, [&](HugePageId page, size_t at, size_t n) STRATA_NO_TSA {
    const HugePageRecord* record = map_.Find(page);
    if (record != nullptr && record->state == HugePageState::kFiller)
      gone += record->tracker->GoneIn(at, n);
  });
  return gone * kNativePageSize;
}

template <PageKernel Kernel>
uint8_t PageHeap<Kernel>::LentTo(HugePageId p) const {
  LockHolder hold(lock_);
  const HugePageRecord* r = map_.Find(p);
  return r != nullptr && r->state == HugePageState::kLent ? r->tracker->lent_to : 0;
}

// What one hugepage of the filler looks like from outside.
inline char StateOf(const HugeTracker& t) {
  if (t.empty()) return 'e';
  if (t.broken) return t.free_backed() != 0 ? 'p' : 'x';
  return t.dense ? 'D' : t.donated ? 'd' : 'r';
}

template <PageKernel Kernel>
struct PageHeap<Kernel>::HugePageView {
  HugePageId page;
  size_t used;
  size_t released;
  char state;
  uint32_t age_s;
};

// Of the n hugepages from `first` on, those that are mapped. Returns how many.
template <PageKernel Kernel>
size_t PageHeap<Kernel>::ViewHugePages(HugePageId first, HugeLength n, HugePageView* out) const {
  constexpr size_t kAll = kPagesPerHugePage;
  const uint32_t now_s = Seconds(kernel_.CoarseNowNs());
  size_t count = 0;
  for (HugePageId p = first; p < allocator_.end() && p < first + n; p += HugeLength(1)) {
    const HugePageRecord* r = map_.Find(p);
    if (r == nullptr || r->state == HugePageState::kUnmapped) continue;
    HugePageView& v = out[count++] = {p, 0, 0, 'u', 0};
    switch (r->state) {
      case HugePageState::kUnmapped:
        break;
      case HugePageState::kFree:
        v.released = kAll;
        break;
      case HugePageState::kCached:
        v.state = 'c';
        break;
      case HugePageState::kInFlight:
        v.state = 'i';
        break;
      case HugePageState::kLarge:
        v = {p, kAll, 0, 'L', now_s - r->in_use_since_s};
        break;
      case HugePageState::kLent:  // its tracker is another lock's: it shows as all used
        v = {p, kAll, 0, 'l', now_s - r->in_use_since_s};
        break;
      case HugePageState::kRegion:
        v = {p, r->region->used(p), r->region->backed(p) ? size_t{0} : kAll, 'g',
             now_s - r->in_use_since_s};
        break;
      case HugePageState::kFiller:
        v = {p, r->tracker->used(), r->tracker->released() + r->tracker->gone() / kNativePerPage,
             StateOf(*r->tracker), now_s - r->in_use_since_s};
        break;
    }
  }
  return count;
}

template <PageKernel Kernel>
template <class F>
void PageHeap<Kernel>::VisitHugePages(F f) const {
  constexpr HugeLength kAtOnce{128};
  HugePageView views[kAtOnce.raw()];
  for (HugePageId first;; first += kAtOnce) {
    size_t n = 0;
    {
      LockHolder hold(lock_);
      if (first >= allocator_.end()) return;
      n = ViewHugePages(first, kAtOnce, views);
    }
    for (const HugePageView* v = views; v != views + n; ++v)
      f(v->page, v->used, v->released, v->state, v->age_s);
  }
}

}  // namespace strata
