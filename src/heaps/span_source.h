// Where the central free lists get spans from and give them back to: a run of the page heap with a
// record, entered in the page map. Also what they ask of the page heap about pages inside spans.
// Sits in heaps, between the central free lists and the page heap. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/object_group.h"
#include "base/placement.h"
#include "heaps/block_lookup.h"
#include "heaps/growth.h"
#include "hugepage/page_heap.h"
#include "os/page_kernel.h"
#include "span/page_map.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

template <class Kernel>
class SpanSource {
 public:
  SpanSource(const Kernel& kernel, PageHeap<Kernel>& page_heap, PageMap& page_map, SpanPool& pool,
             const BlockLookup<Kernel>& blocks, Growth& growth)
      : kernel_(kernel),
        page_heap_(page_heap),
        page_map_(page_map),
        pool_(pool),
        blocks_(blocks),
        growth_(growth) {}
  SpanSource(const SpanSource&) = delete;
  SpanSource& operator=(const SpanSource&) = delete;

  // Null when memory is short.
  Span* TakeSpan(SizeClass c, SpanLength length) {
    Placement placement = PlacementOf(c);
    if (IsLasting(c) && !KeepsLastingApart()) placement.lifetime = LifetimeClass::kUnknown;
    return Make(c, length, placement, ObjectGroup::kNone);
  }
  Span* TakeSpanIn(SizeClass c, Placement placement) {
    return Make(c, SpanLength::kFull, placement, ObjectGroup::kNone);
  }
  Span* TakeSpanOf(SizeClass c, SpanLength length, ObjectGroup group) {
    Placement placement = PlacementOf(c);
    if (group == ObjectGroup::kCold && cold_pages_.load(std::memory_order_relaxed) >= kEnoughForOwn)
      placement.hotness = Hotness::kCold;
    return Make(c, length, placement, group);
  }
  void GiveSpan(Span* span) {
    const PageRange range = span->range();
    const SizeClass c = span->size_class;
    if (span->group == ObjectGroup::kCold)
      cold_pages_.fetch_sub(range.length.raw(), std::memory_order_relaxed);
    if (IsLasting(c)) lasting_pages_.fetch_sub(range.length.raw(), std::memory_order_relaxed);
    growth_.NoteSpanGiven(c);
    page_map_.Clear(range, c);
    pool_.Delete(span);
    page_heap_.Give(range);
  }

  uintptr_t base() const { return kernel_.base(); }
  const PageMap& page_map() const { return page_map_; }
  InUseRelease ReleaseInUse(NativeRange* ranges, size_t n, Program program) {
    return page_heap_.ReleaseInUse(ranges, n, program);
  }
  void NoteIdle(const NativePages* spans, size_t n) { page_heap_.NoteIdle(spans, n); }
  void NoteReused(const NativePages* spans, size_t n) { page_heap_.NoteReused(spans, n); }
  // Held while spans are out of the central lists' reach, so that a fork does not catch any.
  Lock& isolation_lock() { return isolation_lock_; }
  void ReportBadFree(void* p) { blocks_.ReportBadFree(p); }

 private:
  // Below half a hugepage of them, cold pages lie among the others, and so do pages of what lasts.
  // In a large heap, what lasts gets hugepages of its own from the first page on: what stays free
  // of one more is little there.
  static constexpr size_t kEnoughForOwn = kPagesPerHugePage / 2;
  static constexpr Pages kLargeHeap{32 * kPagesPerHugePage};

  bool KeepsLastingApart() const {
    return lasting_pages_.load(std::memory_order_relaxed) >= kEnoughForOwn ||
           page_heap_.used_lately() >= kLargeHeap;
  }

  Span* Make(SizeClass c, SpanLength length, Placement placement, ObjectGroup group) {
    const SpanShape shape = ShapeOf(c, length);
    Span* span = pool_.New(shape.objects);
    if (span == nullptr) return nullptr;
    const PageRun run = page_heap_.Take({Pages(shape.pages), Pages(1), placement});
    if (run.range.empty()) {
      pool_.Delete(span);
      return nullptr;
    }
    growth_.NoteSpan(run, c, page_heap_.used_lately());
    span->size_class = c;
    span->first_page = static_cast<uint32_t>(run.range.first.raw());
    span->num_pages = static_cast<uint32_t>(run.range.length.raw());
    span->group = group;
    span->InitBits();
    page_map_.Set(run.range, span, c);
    if (group != ObjectGroup::kNone) page_map_.SetSampled(run.range);
    if (group == ObjectGroup::kCold)
      cold_pages_.fetch_add(run.range.length.raw(), std::memory_order_relaxed);
    if (IsLasting(c)) lasting_pages_.fetch_add(run.range.length.raw(), std::memory_order_relaxed);
    return span;
  }

  const Kernel& kernel_;
  PageHeap<Kernel>& page_heap_;
  PageMap& page_map_;
  SpanPool& pool_;
  const BlockLookup<Kernel>& blocks_;
  Growth& growth_;
  Lock isolation_lock_{LockRank::kControl};
  std::atomic<size_t> cold_pages_{0};     // of spans of cold objects
  std::atomic<size_t> lasting_pages_{0};  // of spans of classes that last
};

}  // namespace strata
