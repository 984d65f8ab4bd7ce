// Finds room for a large run where no cached range is long enough: cached and unbacked hugepages
// that lie side by side. They are kept apart because only unbacked ones read as zero.
// Sits in hugepage; the page heap's lock guards all of it.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/page_tiers.h"
#include "os/page_kernel.h"

namespace strata {

struct JoinedRange {
  HugePageId begin;  // where the free range begins in which `part` does
  HugeRange part;
};

// n hugepages, none of them in use, that begin at a multiple of `align`; at low addresses first.
// Empty when there are none. Walks over the cache: for callers with a stack.
template <PageKernel Kernel>
JoinedRange FindJoined(const PageTiers<Kernel>& t, HugePages n, HugePages align)
    STRATA_REQUIRES(t.lock) {
  JoinedRange found;
  if (t.cache.size() == HugePages(0) || t.cache.size() + t.allocator.free() < n) return found;
  const size_t bias = t.kernel.past_gibibyte().raw();
  HugePageId begin, end;
  t.cache.ForEach([&](HugeRange cached) STRATA_NO_TSA {
    if (!found.part.empty()) return;
    // Else the last one's free neighbour reaches up to it.
    if (cached.first != end) begin = cached.first - t.FreeBefore(cached.first);
    end = cached.end() + t.FreeBehind(cached.end());
    const HugePageId first(RoundUp(begin.raw() + bias, align.raw()) - bias);
    if (first + n <= end) found = {begin, {first, n}};
  });
  while (!found.part.empty()) {  // to the range that it begins in
    const HugePageId next = found.begin + HugePages(t.map[found.begin].length);
    if (next > found.part.first) break;
    found.begin = next;
  }
  return found;
}

// The same around the cached range that serves most of it, at least half: so that a program whose
// blocks vary in size does not hold as many free ones beside each. Less than half would have calloc
// clear more than was used before.
template <PageKernel Kernel>
JoinedRange FindAround(const PageTiers<Kernel>& t, HugePages n, HugePages align)
    STRATA_REQUIRES(t.lock) {
  JoinedRange found;
  HugePages most = (n - HugePages(1)) / 2;
  if (t.cache.size() <= most) return found;
  const size_t bias = t.kernel.past_gibibyte().raw();
  t.cache.ForLonger(most, [&](HugeRange cached) STRATA_NO_TSA {
    const HugePages before = t.FreeBefore(cached.first);
    const HugePageId end = cached.end() + t.FreeBehind(cached.end());
    HugePageId first(RoundUp(cached.first.raw() + bias, align.raw()) - bias);
    if (first + n > end) {
      if (end.raw() + bias < n.raw()) return;
      first = HugePageId(RoundDown(end.raw() + bias - n.raw(), align.raw()) - bias);
      if (first < cached.first - before) return;
    }
    if (first >= cached.end() || first + n <= cached.first) return;
    const HugePages served = std::min(cached.end(), first + n) - std::max(cached.first, first);
    if (served <= most) return;
    most = served;
    found = {first < cached.first ? cached.first - before : cached.first, {first, n}};
  });
  return found;
}

// Whether all of r, which follows a hugepage in use, is free; so each free range in it begins there
// too.
template <PageKernel Kernel>
bool FreeFrom(const PageTiers<Kernel>& t, HugeRange r) STRATA_REQUIRES(t.lock) {
  for (HugePageId p = r.first; p < r.end();) {
    const HugePageRecord* record = t.map.Find(p);
    if (record == nullptr) return false;
    if (record->state != HugePageState::kCached && record->state != HugePageState::kFree)
      return false;
    p += HugePages(record->length);
  }
  return true;
}

}  // namespace strata
