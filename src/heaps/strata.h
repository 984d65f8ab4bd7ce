// The production heap, tier by tier: page heap, spans, central free lists, transfer cache. The
// front end (per-CPU or per-thread) is put on top by its user, because it belongs to CPUs and
// threads; everything here can be made many times in one process and knows neither. To read the
// architecture, start here.
//
//   front end → TransferCache → CentralFreeList (one a class) → PageHeap → kernel
//   large blocks ───────────────────────────────────────────────↗
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "cache/transfer_cache.h"
#include "hugepage/page_heap.h"
#include "os/page_kernel.h"
#include "span/central_free_list.h"
#include "span/page_map.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

// What became of a pointer that was handed to free.
enum class BadFree : uint8_t {
  kForeign,     // outside the heap
  kMisaligned,  // inside a block
  kDouble,
  kNotLive,  // inside the heap, but the start of no live block: freed before, or never one
};

struct LargeBlock {
  void* address = nullptr;
  bool zeroed = false;
};

struct HeapTick {
  size_t released_bytes = 0;
  bool idle = false;
};

// Kernel: a PageKernel that also gives base(), classes() and spans() of the page map.
template <class Kernel>
class StrataHeap {
 public:
  using BadFreeHandler = void (*)(BadFree, void*);
  using Transfer = TransferCache<StrataHeap>;

  StrataHeap(Kernel& kernel, MetadataArena& arena, const PageHeapOptions& options,
             BadFreeHandler bad_free)
      : kernel_(kernel),
        arena_(arena),
        span_pool_(arena),
        page_heap_(kernel, arena, options),
        bad_free_(bad_free) {
    page_map_.Attach(kernel.classes(), static_cast<Span**>(static_cast<void*>(kernel.spans())));
    for (size_t c = 1; c < kNumClasses; ++c) central_[c].Init(static_cast<SizeClass>(c), this);
    transfer_.Init(this, &arena);
  }

  // The tier below the transfer cache.
  size_t Take(SizeClass c, void** out, size_t n) { return central_[Raw(c)].Take(out, n); }
  void Give(SizeClass c, void* const* objects, size_t n) { central_[Raw(c)].Give(objects, n); }

  // Blocks above kMaxClassSize or aligned to more than a page. Null address when memory is short.
  LargeBlock TakeLarge(size_t size, size_t align) {
    const Length pages = size == 0 ? Length(1) : PagesCeil(size);
    const Length align_pages = align <= kPageSize ? Length(1) : Length(align / kPageSize);
    Span* span = span_pool_.New(0);
    if (span == nullptr) return {};
    const PageRun run = page_heap_.Take({pages, align_pages, false});
    if (run.range.empty()) {
      span_pool_.Delete(span);
      return {};
    }
    span->state = SpanState::kLarge;
    SetRange(*span, run.range);
    span->released_or_asked = size;
    page_map_.Set(run.range, span, SizeClass::kNone);
    Add(large_blocks_, 1);
    Add(large_moves_, 1);
    Add(large_asked_, size);
    Add(pages_in_use_, run.range.length.raw());
    Add(large_pages_, run.range.length.raw());
    return {AddressOf(run.range.first), run.zeroed};
  }

  void GiveLarge(Span* span) {
    const PageRange range = span->range();
    page_map_.Clear(range, SizeClass::kNone);
    Sub(large_blocks_, 1);
    Add(large_moves_, 1);
    Sub(large_asked_, span->released_or_asked);
    Sub(pages_in_use_, range.length.raw());
    Sub(large_pages_, range.length.raw());
    span_pool_.Delete(span);
    page_heap_.Give(range, false);
  }

  // Makes the block hold `size` bytes where it lies; false if it can't.
  bool ResizeLarge(Span* span, size_t size) {
    const Length old_length = span->range().length;
    const Length new_length = PagesCeil(size);
    if (new_length > old_length) {
      if (!page_heap_.TryGrow(span->range(), new_length)) return false;
    } else if (new_length < old_length) {
      page_heap_.Shrink(span->range(), new_length);
    }
    span->num_pages = static_cast<uint32_t>(new_length.raw());
    Add(pages_in_use_, new_length.raw() - old_length.raw());
    Add(large_pages_, new_length.raw() - old_length.raw());
    SetAsked(span, size);
    return true;
  }

  // The program now asks for this much of the block, which has room for it.
  void SetAsked(Span* span, size_t size) {
    Add(large_asked_, size - span->released_or_asked);  // unsigned: comes out right when it wraps
    span->released_or_asked = size;
  }

  // The large block that starts at p, or null.
  Span* LargeAt(const void* p) const {
    const size_t offset = reinterpret_cast<uintptr_t>(p) - kernel_.base();
    Span* span = page_map_.SpanOf(PageId(offset >> kPageShift));
    if (span == nullptr || span->state != SpanState::kLarge || span->start_offset() != offset)
      return nullptr;
    return span;
  }

  // Source of the central free lists.
  Span* TakeSpan(SizeClass c) {
    const ClassInfo& info = InfoOf(c);
    Span* span = span_pool_.New(info.objects);
    if (span == nullptr) return nullptr;
    const PageRun run = page_heap_.Take({Length(info.pages), Length(1), IsDense(c)});
    if (run.range.empty()) {
      span_pool_.Delete(span);
      return nullptr;
    }
    span->size_class = c;
    SetRange(*span, run.range);
    span->InitBits();
    page_map_.Set(run.range, span, c);
    Add(pages_in_use_, info.pages);
    return span;
  }
  void GiveSpan(Span* span) {
    const PageRange range = span->range();
    const SizeClass c = span->size_class;
    page_map_.Clear(range, c);
    Sub(pages_in_use_, range.length.raw());
    span_pool_.Delete(span);
    page_heap_.Give(range, IsDense(c));
  }
  PageMap& page_map() { return page_map_; }
  const PageMap& page_map() const { return page_map_; }
  uintptr_t base() const { return kernel_.base(); }
  size_t ReleaseInUse(const NativeRange* ranges, size_t n) {
    return page_heap_.ReleaseInUse(ranges, n);
  }
  void NoteReused(NativeRange range) { page_heap_.NoteReused(range); }
  // Held while spans are out of the central lists' reach, so that a fork does not catch any.
  Lock& isolation_lock() { return isolation_lock_; }
  void ReportBadFree(void* p) { bad_free_(BadFree::kDouble, p); }

  // One step of the background work, about once a second. Unless `release` is set nothing is given
  // back.
  HeapTick Tick(bool release);
  // Gives back what can be given back, at least `bytes` if there is that much: strata_release,
  // limits.
  size_t ReleaseNow(size_t bytes);

  // Sends all that is free in the tiers above the page heap down to it.
  void EmptyCaches() {
    for (size_t c = 1; c < kNumClasses; ++c) {
      transfer_.Plunder(static_cast<SizeClass>(c), true);
      central_[c].ReleaseEmpty(UINT32_MAX);
    }
  }

  Transfer& transfer() { return transfer_; }
  PageHeap<Kernel>& page_heap() { return page_heap_; }
  CentralFreeList<StrataHeap>& central(SizeClass c) { return central_[Raw(c)]; }
  SpanPool& span_pool() { return span_pool_; }
  MetadataArena& arena() { return arena_; }
  Kernel& kernel() { return kernel_; }
  size_t pages_in_use() const { return pages_in_use_.load(std::memory_order_relaxed); }
  size_t large_blocks() const { return large_blocks_.load(std::memory_order_relaxed); }
  size_t large_asked() const { return large_asked_.load(std::memory_order_relaxed); }
  size_t large_pages() const { return large_pages_.load(std::memory_order_relaxed); }

  // Calls f(Lock&) for every lock of the heap but isolation_lock(), which comes before the front
  // end's, in the order in which they may be taken.
  template <class F>
  void VisitLocks(F f) {
    for (size_t c = 1; c < kNumClasses; ++c) f(transfer_.lock(static_cast<SizeClass>(c)));
    for (size_t c = 1; c < kNumClasses; ++c) f(central_[c].lock());
    f(span_pool_.lock());
    f(page_heap_.lock());
    f(kernel_.lock());
    f(arena_.lock());
  }

 private:
  // A tick with fewer moves than this between the central lists and the caches counts as idle, so
  // that a health check or a timer does not keep a resting server's memory resident.
  static constexpr uint64_t kIdleMoves = 256;
  static constexpr uint32_t kIdleTicks = 3;  // an idle program's spans are searched after this many
  static constexpr uint32_t kBusyTicks = 30;  // a busy program's, when untouched for this many
  static constexpr size_t kBusyBytes = 64
                                       << 20;  // given back a tick from one class of a busy program
  static constexpr uint32_t kSettleTicks =
      2;  // transfer caches of an idle program are emptied after this many

  void* AddressOf(PageId p) const { return reinterpret_cast<void*>(kernel_.base() + OffsetOf(p)); }
  static void SetRange(Span& span, PageRange range) {
    span.first_page = static_cast<uint32_t>(range.first.raw());
    span.num_pages = static_cast<uint32_t>(range.length.raw());
  }
  static void Add(std::atomic<size_t>& n, size_t by) { n.fetch_add(by, std::memory_order_relaxed); }
  static void Sub(std::atomic<size_t>& n, size_t by) { n.fetch_sub(by, std::memory_order_relaxed); }

  uint64_t Moves() const {
    uint64_t sum = 0;
    for (size_t c = 1; c < kNumClasses; ++c) sum += central_[c].moves();
    return sum + large_moves_.load(std::memory_order_relaxed);
  }

  Kernel& kernel_;
  MetadataArena& arena_;
  Lock isolation_lock_{LockRank::kControl};
  SpanPool span_pool_;
  PageHeap<Kernel> page_heap_;
  PageMap page_map_;
  BadFreeHandler bad_free_;
  CentralFreeList<StrataHeap> central_[kMaxClasses];
  Transfer transfer_;
  std::atomic<size_t> pages_in_use_{0};
  std::atomic<size_t> large_blocks_{0};
  std::atomic<size_t> large_asked_{0};
  std::atomic<size_t> large_pages_{0};
  std::atomic<size_t> large_moves_{0};  // takes and gives so far
  // Background thread only.
  uint32_t tick_ = 1;
  uint32_t idle_ticks_ = 0;
  uint64_t last_moves_ = 0;
};

template <class Kernel>
HeapTick StrataHeap<Kernel>::Tick(bool release) {
  ++tick_;
  for (size_t c = 1; c < kNumClasses; ++c) central_[c].set_tick(tick_);
  const uint64_t moves = Moves();
  idle_ticks_ = moves - last_moves_ < kIdleMoves ? idle_ticks_ + 1 : 0;
  last_moves_ = moves;
  HeapTick result;
  result.idle = idle_ticks_ != 0;
  const bool settle = idle_ticks_ >= kSettleTicks;
  for (size_t c = 1; c < kNumClasses; ++c) transfer_.Plunder(static_cast<SizeClass>(c), settle);
  if (!release) return result;
  const bool idle = idle_ticks_ >= kIdleTicks;
  const uint32_t age = idle ? kIdleTicks - 1 : kBusyTicks;
  for (size_t c = 1; c < kNumClasses && tick_ > age; ++c) {
    central_[c].ReleaseEmpty(tick_ - (idle ? 1 : 2));
    result.released_bytes += central_[c].ReleaseIdle(tick_ - age, idle ? SIZE_MAX : kBusyBytes);
  }
  result.released_bytes += page_heap_.Tick(settle);
  last_moves_ = Moves();  // our own work is not the program's
  return result;
}

template <class Kernel>
size_t StrataHeap<Kernel>::ReleaseNow(size_t bytes) {
  EmptyCaches();
  size_t released = page_heap_.ReleaseNow(bytes);
  for (size_t c = 1; c < kNumClasses && released < bytes; ++c) {
    released += central_[c].ReleaseIdle(UINT32_MAX, bytes - released);
  }
  return released;
}

}  // namespace strata
