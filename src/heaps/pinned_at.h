// What one live block keeps from being given back, for the fragmentation profile: the figures of
// profile/pinned_bytes.h, from the tiers. Takes their locks one after the other. Sits in heaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/page_heap_stats.h"
#include "profile/pinned_bytes.h"
#include "span/central_free_list.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

// Bytes of a span that no object has, on pages where one lies: the others go back, or went.
inline size_t FreeAmongObjects(const Span& span, SpanUse use) {
  const size_t all = BytesOf(span.range().length);
  const size_t not_free =
      use.taken * InfoOf(span.size_class).size + use.idle_pages * kNativePageSize;
  return not_free < all ? all - not_free : 0;
}

// Heap: a StrataHeap. The caller keeps the block at this address live.
template <class Heap>
PinnedBytes PinnedAt(Heap& heap, uintptr_t address) {
  Span* span = heap.page_map().SpanOf(PageId((address - heap.kernel().base()) >> kPageShift));
  if (span == nullptr) return {};
  PinnedBytes pinned;
  double objects = 1;
  if (span->state != SpanState::kLarge) {
    const SpanUse use = heap.central().ListOf(*span).UseOf(span);
    if (use.taken == 0) return {};  // only after a double free
    objects = static_cast<double>(use.taken);
    pinned.in_span = static_cast<double>(FreeAmongObjects(*span, use)) / objects;
  }
  const PageRange range = heap.large().RangeOf(span);
  // Only the last hugepage of a long run has room for others.
  const PageId last = range.end() - Pages(1);
  const HugePageId huge = HugePageOf(last);
  const HugePageFill fill = heap.large().FillOf(huge);
  if (fill.used == 0) return pinned;
  const size_t to_start = (last - FirstPage(huge)).raw() + 1;
  const size_t pages = range.length.raw() < to_start ? range.length.raw() : to_start;
  pinned.in_hugepage = static_cast<double>(fill.free_backed * kPageSize * pages) /
                       (static_cast<double>(fill.used) * objects);
  return pinned;
}

// The most that PinnedAt can make up over all live blocks, by the tiers' own counts: they do not
// know on which pages of a span nothing lies.
template <class Heap>
PinnedBytes PinnedInAll(Heap& heap) {
  size_t free = 0;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    CentralStats central;
    if (auto* list = heap.central().Find(c)) central = list->Stats();
    heap.central().groups().ForEachOf(c, [&central](auto& list) { central.Add(list.Stats()); });
    const size_t taken = central.objects_out * InfoOf(c).size;
    const size_t all = central.pages * kPageSize;
    free += taken < all ? all - taken : 0;
  }
  const PageHeapStats pages = heap.large().PageStats();
  const size_t gone = pages.filler.in_use_released;
  return {static_cast<double>(gone < free ? free - gone : 0),
          static_cast<double>(pages.filler.free + pages.region.free)};
}

}  // namespace strata
