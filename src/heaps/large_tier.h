// The tier of large blocks: those of span/large_blocks.h by their addresses, which the page map
// leads from. Sits in heaps, over the page heap. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/placement.h"
#include "base/units.h"
#include "heaps/block_lookup.h"
#include "heaps/growth.h"
#include "hugepage/page_heap.h"
#include "span/large_blocks.h"
#include "span/page_map.h"
#include "span/span.h"

namespace strata {

template <class Kernel>
class LargeTier : private LargeBlocks<PageHeap<Kernel>> {
  using Blocks = LargeBlocks<PageHeap<Kernel>>;

 public:
  LargeTier(const Kernel& kernel, PageHeap<Kernel>& page_heap, MetadataArena& arena, SpanPool& pool,
            PageMap& page_map, const BlockLookup<Kernel>& lookup, Growth& growth,
            typename Blocks::CpuNumber cpu_number)
      : Blocks(page_heap, arena, pool, cpu_number),
        kernel_(kernel),
        page_heap_(page_heap),
        page_map_(page_map),
        lookup_(lookup),
        growth_(growth) {}

  using Blocks::counts;
  using Blocks::FillOf;
  using Blocks::lent;
  using Blocks::PageStats;
  using Blocks::RangeOf;
  using Blocks::RequestedOf;
  using Blocks::Resize;
  using Blocks::ReturnAll;
  using Blocks::SetRequested;
  using Blocks::Tick;
  using Blocks::VisitLocks;

  // Blocks that no class serves (LeanClassOfAligned). Null address when memory is short.
  LargeBlock Take(size_t size, size_t align, Placement placement = {}) {
    const Pages align_pages = align <= kPageSize ? Pages(1) : Pages(align / kPageSize);
    bool zeroed = false;
    Span* span = Blocks::Take(size, align_pages, placement, &zeroed);
    if (span == nullptr) return {};
    if (align <= kShift) span->shift = ShiftOf(*span);
    return Enter(span, zeroed);
  }

  // One that begins in its first page where `like` does, so that this can move there without
  // copying. What it requested is to be set.
  LargeBlock TakeLike(const Span& like, size_t size) {
    bool zeroed = false;
    Span* span = Blocks::Take(size + like.shift, Pages(1), {}, &zeroed);
    if (span == nullptr) return {};
    span->shift = like.shift;
    return Enter(span, zeroed);
  }

  void Give(Span* span) {
    page_map_.Clear(span->range(), SizeClass::kNone);
    span->state = SpanState::kUnused;
    Blocks::Give(span);
  }

  // Moves `bytes` from the start of one block to another's, and gives the first back.
  void GiveMoved(Span* from, const Span* to, size_t bytes) {
    page_map_.Clear(from->range(), SizeClass::kNone);
    from->state = SpanState::kUnused;
    auto* const source = reinterpret_cast<char*>(kernel_.base() + from->block_offset());
    auto* const target = reinterpret_cast<char*>(kernel_.base() + to->block_offset());
    const size_t pages = from->shift == to->shift ? Blocks::Move(from, to) : 0;
    const size_t moved = pages == 0 ? 0 : pages - to->shift;
    if (moved < bytes) __builtin_memcpy(target + moved, source + moved, bytes - moved);
    Blocks::Give(from);
  }

  // The block that starts at p, which lies in the heap; or null.
  Span* At(const void* p) const { return lookup_.LargeAt(p); }

  // PageHeap::VisitHugePages, where lent ones are regular, or cached if nothing is in them.
  template <class F>
  void VisitHugePages(F f) const {
    page_heap_.VisitHugePages(
        [&](HugePageId page, size_t used, size_t released, char state, uint32_t age_s) {
          if (state == 'l') {
            used = FillOf(page).used;
            state = used != 0 ? 'r' : 'c';
          }
          f(page, used, released, state, age_s);
        });
  }

 private:
  static constexpr size_t kMostStarts = 15;

  // See FirstIn: blocks do not begin where others do, as far as the rest of the last page goes, so
  // that it takes no memory. A Redis with values of 300 and 400 KB takes 0.79 and 0.71 of the CPU
  // time for it, SQLite with such blobs 0.87.
  static uint16_t ShiftOf(const Span& span) {
    const size_t room = (BytesOf(span.range().length) - span.requested) / kShift;
    return static_cast<uint16_t>(FirstOf(room < kMostStarts ? room : kMostStarts, span.first_page));
  }

  LargeBlock Enter(Span* span, bool zeroed) {
    growth_.Note({span->range(), zeroed});
    page_map_.Set(span->range(), span, SizeClass::kNone);
    return {reinterpret_cast<void*>(kernel_.base() + span->block_offset()), zeroed};
  }

  const Kernel& kernel_;
  const PageHeap<Kernel>& page_heap_;
  PageMap& page_map_;
  const BlockLookup<Kernel>& lookup_;
  Growth& growth_;
};

}  // namespace strata
