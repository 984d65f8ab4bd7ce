// What the page heap's tiers hold, for statistics and dumps. Sits in hugepage; reads only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/units.h"
#include "hugepage/page_heap_stats.h"
#include "hugepage/page_tiers.h"
#include "hugepage/tracker_lists.h"
#include "os/page_kernel.h"

namespace strata {

template <PageKernel Kernel>
void ReportFiller(const PageTiers<Kernel>& t, PageHeapStats::Filler& f) STRATA_REQUIRES(t.lock) {
  using L = TrackerLists;
  f.hugepages = t.filler.hugepages();
  f.used = BytesOf(t.filler.used());
  f.free = BytesOf(t.filler.free_backed());
  f.released = BytesOf(t.filler.released());
  f.in_use_released = t.filler.gone_native() << kNativePageShift;
  f.untouched = BytesOf(t.filler.untouched());
  for (const PlacementGroup group : kPlacementGroups) {
    const size_t regular = t.filler.count({L::kRegular, group});
    const size_t donated = t.filler.count({L::kDonated, group});
    const size_t partial = t.filler.count({L::kPartial, group});
    const size_t released = t.filler.count({L::kReleased, group});
    f.regular += regular;
    f.donated += donated;
    f.partly_released += partial;
    f.all_released += released;
    size_t& of_group = group == PlacementGroup::kLasting ? f.dense : f.sparse;
    of_group += regular + donated + partial + released;
  }
  f.slack = BytesOf(t.filler.slack());
  f.abandoned = BytesOf(t.filler.abandoned());
}

// What the tiers know of themselves; the rest is the parts'.
template <PageKernel Kernel>
PageHeapStats ReportTiers(const PageTiers<Kernel>& t) STRATA_REQUIRES(t.lock) {
  PageHeapStats s;
  ReportFiller(t, s.filler);
  s.cache = {t.cache.size().raw(), t.cache.limit().raw(), t.cache.hits(), t.cache.misses()};
  for (const HugeRegion* g = t.regions.first(); g != nullptr; g = RegionSet::Next(g)) {
    ++s.region.regions;
    s.region.released += BytesOf(HugeRegion::kSize) - BytesOf(g->backed());
  }
  s.region.used = BytesOf(t.regions.used());
  s.region.free = BytesOf(t.regions.free_backed());
  s.allocator = {BytesOf(t.allocator.mapped()), BytesOf(t.allocator.free())};
  s.used = BytesOf(t.used);
  s.large = BytesOf(t.large);
  s.free_backed = BytesOf(t.FreeBacked());
  s.backed = BytesOf(t.Backed());
  s.marked_no_huge = t.marked;
  return s;
}

// The pages in use and the free pages with memory behind them of one hugepage; both 0 where no
// small runs lie.
template <PageKernel Kernel>
HugePageFill FillOf(const PageTiers<Kernel>& t, HugePageId p) STRATA_REQUIRES(t.lock) {
  const HugePageRecord* r = t.map.Find(p);
  if (r == nullptr) return {};
  if (r->state == HugePageState::kFiller) return {r->tracker->used(), r->tracker->free_backed()};
  if (r->state == HugePageState::kRegion && r->region->backed(p))
    return {r->region->used(p), kPagesPerHugePage - r->region->used(p)};
  return {};
}

// Bytes of a range, which lies inside a run, that were given back and not touched since.
template <PageKernel Kernel>
size_t GoneIn(const PageTiers<Kernel>& t, NativeRange r) STRATA_REQUIRES(t.lock) {
  size_t gone = 0;
  ForEachHugePage(r, [&](HugePageId page, size_t at, size_t n) STRATA_NO_TSA {
    const HugeTracker* tracker = t.InFiller(page);
    if (tracker != nullptr) gone += tracker->GoneIn(at, n);
  });
  return gone * kNativePageSize;
}

// What one hugepage looks like from outside. States: r regular, D dense, d donated tail, p partly
// released, x all free pages released, e empty and broken, s begun as single pages, b the same and
// a part released since, g region, L large run, l lent, c cached, i being released, u not backed.
struct HugePageView {
  HugePageId page;
  size_t used;      // pages
  size_t released;  // pages
  char state;
  uint32_t age_s;  // in use for so long
};

inline char StateOf(const HugeTracker& t) {
  if (t.begun_small) return t.sparse ? 's' : 'b';
  if (t.empty()) return 'e';
  if (t.broken) return t.free_backed() != 0 ? 'p' : 'x';
  return t.group == PlacementGroup::kLasting ? 'D' : t.donated ? 'd' : 'r';
}

inline HugePageView ViewOf(HugePageId p, const HugePageRecord& r, uint32_t now_s) {
  constexpr size_t kAll = kPagesPerHugePage;
  const uint32_t age_s = now_s - r.in_use_since_s;
  switch (r.state) {
    case HugePageState::kUnmapped:
      break;
    case HugePageState::kFree:
      return {p, 0, kAll, 'u', 0};
    case HugePageState::kCached:
      return {p, 0, 0, 'c', 0};
    case HugePageState::kInFlight:
      return {p, 0, 0, 'i', 0};
    case HugePageState::kLarge:
      return {p, kAll, 0, 'L', age_s};
    case HugePageState::kLent:  // its tracker is another lock's: it shows as all used
      return {p, kAll, 0, 'l', age_s};
    case HugePageState::kRegion:
      return {p, r.region->used(p), r.region->backed(p) ? size_t{0} : kAll, 'g', age_s};
    case HugePageState::kFiller:
      return {p, r.tracker->used(), r.tracker->released() + r.tracker->gone() / kNativePerPage,
              StateOf(*r.tracker), age_s};
  }
  return {p, 0, 0, 'u', 0};
}

// Of the n hugepages from `first` on, those that are mapped. Returns how many.
template <PageKernel Kernel>
size_t ViewHugePages(const PageTiers<Kernel>& t, HugePageId first, HugePages n, HugePageView* out)
    STRATA_REQUIRES(t.lock) {
  const uint32_t now_s = Seconds(t.CoarseNow());
  size_t count = 0;
  for (HugePageId p = first; p < t.allocator.end() && p < first + n; p += HugePages(1)) {
    const HugePageRecord* r = t.map.Find(p);
    if (r == nullptr || r->state == HugePageState::kUnmapped) continue;
    out[count++] = ViewOf(p, *r, now_s);
  }
  return count;
}

// Calls f with the fields of its view for each mapped hugepage in address order, without the lock:
// f gets copies, made some hundred at a time.
template <PageKernel Kernel, class F>
void VisitHugePages(const PageTiers<Kernel>& t, F f) STRATA_EXCLUDES(t.lock) {
  constexpr HugePages kAtOnce{128};
  HugePageView views[kAtOnce.raw()];
  for (HugePageId first;; first += kAtOnce) {
    size_t n = 0;
    {
      LockHolder hold(t.lock);
      if (first >= t.allocator.end()) return;
      n = ViewHugePages(t, first, kAtOnce, views);
    }
    for (const HugePageView* v = views; v != views + n; ++v)
      f(v->page, v->used, v->released, v->state, v->age_s);
  }
}

}  // namespace strata
