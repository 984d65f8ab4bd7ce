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
  filler_.ForEach([&f](const HugeTracker* t) { f.untouched += BytesOf(Length(t->untouched())); });
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
  s.demand = BytesOf(last_demand_);
  s.marked_no_huge = marked_;
  s.released_total = released_total_;
  s.collapsed_total = collapsed_total_;
  return s;
}

// What one hugepage of the filler looks like from outside.
inline char StateOf(const HugeTracker& t) {
  if (t.empty()) return 'e';
  if (t.broken) return t.free_backed() != 0 ? 'p' : 'x';
  return t.dense ? 'D' : t.donated ? 'd' : 'r';
}

template <PageKernel Kernel>
template <class F>
void PageHeap<Kernel>::VisitHugePages(F f) const {
  LockHolder hold(lock_);
  constexpr size_t kAll = kPagesPerHugePage;
  for (HugePageId p; p < allocator_.end(); p += HugeLength(1)) {
    const HugePageRecord* r = map_.Find(p);
    if (r == nullptr) continue;
    switch (r->state) {
      case HugePageState::kUnmapped:
        break;
      case HugePageState::kFree:
        f(p, size_t{0}, kAll, 'u');
        break;
      case HugePageState::kCached:
        f(p, size_t{0}, size_t{0}, 'c');
        break;
      case HugePageState::kInFlight:
        f(p, size_t{0}, size_t{0}, 'i');
        break;
      case HugePageState::kLarge:
        f(p, kAll, size_t{0}, 'L');
        break;
      case HugePageState::kRegion:
        f(p, r->region->used(p), r->region->backed(p) ? size_t{0} : kAll, 'g');
        break;
      case HugePageState::kFiller:
        f(p, r->tracker->used(), r->tracker->released() + r->tracker->gone() / kNativePerPage,
          StateOf(*r->tracker));
        break;
    }
  }
}

}  // namespace strata
