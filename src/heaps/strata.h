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
#include "profile/pinned_bytes.h"
#include "span/central_free_list.h"
#include "span/large_blocks.h"
#include "span/page_map.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

// What became of a pointer that was handed to free.
enum class BadFree : uint8_t {
  kForeign,     // outside the heap
  kMisaligned,  // inside a block
  kDouble,
  kNotLive,      // inside the heap, but the start of no live block: freed before, or never one
  kOverwritten,  // no bad free, but a free block that was written to
};

// What the tiers below the caches know of an address in a span.
enum class ObjectState : uint8_t {
  kNone,      // no object begins there
  kFree,      // one does, and it is free
  kGivenOut,  // to the program or to a cache
};

// How much the program computed since the last tick.
enum class CpuUse : uint8_t { kLittle, kMuch };

struct HeapTick {
  size_t released_bytes = 0;
  bool idle = false;
};

// Which runs share hugepages: spans of many objects apart from those of few, because they stay
// longer (papers §4, the lifetime-aware filler), or all together: for experiments.
enum class FillerGroups : uint8_t { kByLifetime, kTogether };

struct TierOptions {
  SpanOrder span_order = SpanOrder::kFullestFirst;
  FillerGroups filler_groups = FillerGroups::kByLifetime;
  size_t (*cpu_number)() = [] { return size_t{0}; };  // see LargeBlocks
};

// Kernel: a PageKernel that also gives base(), entries() and spans() of the page map.
template <class Kernel>
class StrataHeap {
 public:
  using BadFreeHandler = void (*)(BadFree, void*);
  using Transfer = TransferCache<StrataHeap>;

  StrataHeap(Kernel& kernel, MetadataArena& arena, const PageHeapOptions& options,
             BadFreeHandler bad_free, const TierOptions& tiers = {})
      : kernel_(kernel),
        arena_(arena),
        span_pool_(arena),
        page_heap_(kernel, arena, options),
        large_(page_heap_, arena, span_pool_, tiers.cpu_number),
        bad_free_(bad_free),
        filler_groups_(tiers.filler_groups) {
    page_map_.Attach(kernel.base(), kernel.entries(), static_cast<Span**>(kernel.spans()));
    for (size_t c = 1; c < kNumClasses; ++c)
      central_[c].Init(static_cast<SizeClass>(c), this, tiers.span_order);
    transfer_.Init(this, &arena);
  }

  // A block for long, on the hugepages of what likely stays: see CentralFreeList::TakeLongLived.
  void* TakeLongLived(SizeClass c) { return central_[Raw(c)].TakeLongLived(); }

  // The tier below the transfer cache.
  size_t Take(SizeClass c, void** out, size_t n) { return central_[Raw(c)].Take(out, n); }
  void Give(SizeClass c, void* const* objects, size_t n) { central_[Raw(c)].Give(objects, n); }

  // Blocks above kMaxClassSize or aligned to more than a page. Null address when memory is short.
  LargeBlock TakeLarge(size_t size, size_t align) {
    const Length align_pages = align <= kPageSize ? Length(1) : Length(align / kPageSize);
    bool zeroed = false;
    Span* span = large_.Take(size, align_pages, &zeroed);
    if (span == nullptr) return {};
    page_map_.Set(span->range(), span, SizeClass::kNone);
    return {AddressOf(span->range().first), zeroed};
  }

  void GiveLarge(Span* span) {
    page_map_.Clear(span->range(), SizeClass::kNone);
    span->state = SpanState::kUnused;
    large_.Give(span);
  }

  // Makes the block hold `size` bytes where it lies; false if it can't.
  bool ResizeLarge(Span* span, size_t size) { return large_.Resize(span, size); }

  // The program now asks for this much of the block, which has room for it.
  void SetAsked(Span* span, size_t size) { large_.SetAsked(span, size); }

  // What the live block at this address keeps from being given back. The caller keeps it live.
  PinnedBytes PinnedAt(uintptr_t address) {
    Span* span = page_map_.SpanOf(PageId((address - kernel_.base()) >> kPageShift));
    if (span == nullptr) return {};
    PinnedBytes pinned;
    double objects = 1;
    if (span->state != SpanState::kLarge) {
      const size_t taken = central_[Raw(span->size_class)].TakenFrom(span);
      if (taken == 0) return {};  // only after a double free
      objects = static_cast<double>(taken);
      pinned.in_span = static_cast<double>(FreeBackedIn(*span, taken)) / objects;
    }
    const PageRange range = large_.RangeOf(span);
    // Only the last hugepage of a long run has room for others.
    const PageId last = range.end() - Length(1);
    const HugePageId huge = HugePageOf(last);
    const HugePageFill fill = large_.FillOf(huge);
    if (fill.used == 0) return pinned;
    const size_t to_start = (last - FirstPage(huge)).raw() + 1;
    const size_t pages = range.length.raw() < to_start ? range.length.raw() : to_start;
    pinned.in_hugepage = static_cast<double>(fill.free_backed * kPageSize * pages) /
                         (static_cast<double>(fill.used) * objects);
    return pinned;
  }

  size_t AskedOf(const Span* span) const { return large_.AskedOf(span); }

  // The large block that starts at p, or null.
  Span* LargeAt(const void* p) const {
    const size_t offset = reinterpret_cast<uintptr_t>(p) - kernel_.base();
    Span* span = page_map_.SpanOf(PageId(offset >> kPageShift));
    if (span == nullptr || span->state != SpanState::kLarge || span->start_offset() != offset)
      return nullptr;
    return span;
  }

  // Whether p looks like an object of the class, as far as the page map tells.
  bool MayBeObject(SizeClass c, const void* p) const {
    const auto address = reinterpret_cast<uintptr_t>(p);
    const size_t offset = address - kernel_.base();
    if (offset >= kernel_.mapped_end()) return false;
    return page_map_.ClassOf(PageId(offset >> kPageShift)) == c &&
           IsObjectStart(page_map_.entries()[offset >> kPageShift], c, address);
  }

  // p: on a page that the map gives to this class. The free bit is read without the lock: that of
  // an object given out stays as it is until the object comes back.
  ObjectState StateOf(SizeClass c, const void* p) const {
    const size_t offset = reinterpret_cast<uintptr_t>(p) - kernel_.base();
    const Span* span = page_map_.SpanOf(PageId(offset >> kPageShift));
    if (span == nullptr || span->size_class != c) return ObjectState::kNone;
    const size_t in_span = offset - span->start_offset();
    const size_t index = IndexOfOffset(InfoOf(c), in_span);
    if (index >= span->objects || index * InfoOf(c).size != in_span) return ObjectState::kNone;
    const uint64_t word = __atomic_load_n(&span->free_bits()[index / 64], __ATOMIC_RELAXED);
    return (word >> (index % 64) & 1) != 0 ? ObjectState::kFree : ObjectState::kGivenOut;
  }

  // Source of the central free lists.
  Span* TakeSpan(SizeClass c) { return TakeSpanIn(c, GroupOf(c)); }
  Span* TakeLongLivedSpan(SizeClass c) {
    return TakeSpanIn(c, filler_groups_ == FillerGroups::kByLifetime);
  }
  void GiveSpan(Span* span) {
    const PageRange range = span->range();
    const SizeClass c = span->size_class;
    page_map_.Clear(range, c);
    span_pool_.Delete(span);
    page_heap_.Give(range, GroupOf(c));
  }
  PageMap& page_map() { return page_map_; }
  const PageMap& page_map() const { return page_map_; }
  uintptr_t base() const { return kernel_.base(); }
  InUseRelease ReleaseInUse(NativeRange* ranges, size_t n, Program program) {
    return page_heap_.ReleaseInUse(ranges, n, program);
  }
  void NoteIdle(const NativePages* spans, size_t n) { page_heap_.NoteIdle(spans, n); }
  void NoteReused(const NativePages* spans, size_t n) { page_heap_.NoteReused(spans, n); }
  // Held while spans are out of the central lists' reach, so that a fork does not catch any.
  Lock& isolation_lock() { return isolation_lock_; }
  // A central list was given p, which is no object that it gave out.
  void ReportBadFree(void* p) {
    const size_t offset = reinterpret_cast<uintptr_t>(p) - kernel_.base();
    const SizeClass c = page_map_.ClassOf(PageId(offset >> kPageShift));
    const bool inside = c != SizeClass::kNone && StateOf(c, p) == ObjectState::kNone;
    bad_free_(inside ? BadFree::kMisaligned : BadFree::kDouble, p);
  }
  void ReportOverwritten(void* p) { bad_free_(BadFree::kOverwritten, p); }

  // One step of the background work, about once a second. Unless `release` is set nothing is given
  // back.
  HeapTick Tick(bool release, CpuUse cpu = CpuUse::kLittle);
  // Gives back what can be given back, at least `bytes` if there is that much: strata_release,
  // limits.
  size_t ReleaseNow(size_t bytes);

  // Sends all that is free in the tiers above the page heap down to it.
  void EmptyCaches() {
    for (size_t c = 1; c < kNumClasses; ++c) {
      transfer_.Plunder(static_cast<SizeClass>(c), true);
      central_[c].ReleaseEmpty(UINT32_MAX);
    }
    ReturnLent();
  }

  // The hugepages lent to CPUs go back to the page heap.
  void ReturnLent() { large_.ReturnAll(); }

  // What the page heap says, with lent hugepages counted by what lies in them. Changes nothing.
  PageHeapStats PageStats() const { return large_.PageStats(); }
  // PageHeap::VisitHugePages, likewise: lent ones are regular, or cached where nothing is in them.
  template <class F>
  void VisitHugePages(F f) const {
    page_heap_.VisitHugePages(
        [&](HugePageId page, size_t used, size_t released, char state, uint32_t age_s) {
          if (state == 'l') {
            used = large_.FillOf(page).used;
            state = used != 0 ? 'r' : 'c';
          }
          f(page, used, released, state, age_s);
        });
  }

  Transfer& transfer() { return transfer_; }
  PageHeap<Kernel>& page_heap() { return page_heap_; }
  CentralFreeList<StrataHeap>& central(SizeClass c) { return central_[Raw(c)]; }
  SpanPool& span_pool() { return span_pool_; }
  MetadataArena& arena() { return arena_; }
  Kernel& kernel() { return kernel_; }
  LargeBlockCounts large_blocks() const { return large_.counts(); }
  size_t lent_hugepages() const { return large_.lent(); }

  // Calls f(Lock&) for every lock of the heap but isolation_lock(), which comes before the front
  // end's, in the order in which they may be taken.
  template <class F>
  void VisitLocks(F f) {
    for (size_t c = 1; c < kNumClasses; ++c) f(transfer_.lock(static_cast<SizeClass>(c)));
    for (size_t c = 1; c < kNumClasses; ++c) f(central_[c].lock());
    large_.VisitLocks(f);
    f(page_heap_.lock());
    f(span_pool_.lock());
    f(kernel_.lock());
    f(arena_.lock());
  }

 private:
  // A tick with fewer moves than this between the central lists and the caches counts as idle, so
  // that a health check or a timer does not keep a resting server's memory resident.
  static constexpr uint64_t kIdleMoves = 256;
  static constexpr uint32_t kIdleTicks = 3;  // an idle program's spans are searched after this many
  static constexpr uint32_t kBusyTicks = 30;   // a busy program's, when untouched for this many
  static constexpr uint64_t kSurveyRest = 50;  // times as long as the last survey took
  static constexpr size_t kBusyBytes = 64
                                       << 20;  // given back a tick from one class of a busy program
  static constexpr uint32_t kSettleTicks =
      2;  // transfer caches of an idle program are emptied after this many

  bool GroupOf(SizeClass c) const {
    return filler_groups_ == FillerGroups::kByLifetime && IsDense(c);
  }
  // `dense`: on the hugepages of what stays long.
  Span* TakeSpanIn(SizeClass c, bool dense) {
    const ClassInfo& info = InfoOf(c);
    Span* span = span_pool_.New(info.objects);
    if (span == nullptr) return nullptr;
    const PageRun run = page_heap_.Take({Length(info.pages), Length(1), dense});
    if (run.range.empty()) {
      span_pool_.Delete(span);
      return nullptr;
    }
    span->size_class = c;
    SetRange(*span, run.range);
    span->InitBits();
    page_map_.Set(run.range, span, c);
    return span;
  }
  // Bytes of a span that no object has, of which `taken` are given out, and that have memory.
  size_t FreeBackedIn(const Span& span, size_t taken) const {
    const PageRange range = span.range();
    const size_t all = BytesOf(range.length);
    const size_t not_free =
        taken * InfoOf(span.size_class).size + page_heap_.GoneIn({OffsetOf(range.first), all});
    return not_free < all ? all - not_free : 0;
  }
  bool SpansWereRebuilt() {
    const uint32_t rebuilt = page_heap_.rebuilt_in_use();
    return rebuilt_.exchange(rebuilt, std::memory_order_relaxed) != rebuilt;
  }
  bool SpansChanged() {
    bool changed = SpansWereRebuilt();
    for (size_t c = 1; c < kNumClasses; ++c) changed |= central_[c].GivenSinceRelease();
    return changed;
  }
  size_t ReleaseInSpans(uint32_t before, size_t limit, Program program);
  void* AddressOf(PageId p) const { return reinterpret_cast<void*>(kernel_.base() + OffsetOf(p)); }
  static void SetRange(Span& span, PageRange range) {
    span.first_page = static_cast<uint32_t>(range.first.raw());
    span.num_pages = static_cast<uint32_t>(range.length.raw());
  }

  uint64_t Moves() const {
    uint64_t sum = 0;
    for (size_t c = 1; c < kNumClasses; ++c) sum += central_[c].moves();
    return sum + large_blocks().moves;
  }

  Kernel& kernel_;
  MetadataArena& arena_;
  Lock isolation_lock_{LockRank::kControl};
  SpanPool span_pool_;
  PageHeap<Kernel> page_heap_;
  LargeBlocks<PageHeap<Kernel>> large_;
  PageMap page_map_;
  BadFreeHandler bad_free_;
  const FillerGroups filler_groups_;
  CentralFreeList<StrataHeap> central_[kMaxClasses];
  Transfer transfer_;
  std::atomic<uint32_t> rebuilt_{0};  // of the page heap's, what the central lists know
  // Background thread only.
  uint32_t tick_ = 1;
  uint32_t idle_ticks_ = 0;
  uint32_t rest_ticks_ = 0;
  uint64_t last_moves_ = 0;
  uint64_t next_survey_ns_ = 0;
  size_t surveyed_for_ = 0;  // the gain that the last survey's hugepages were judged by
};

template <class Kernel>
HeapTick StrataHeap<Kernel>::Tick(bool release, CpuUse cpu) {
  ++tick_;
  for (size_t c = 1; c < kNumClasses; ++c) central_[c].set_tick(tick_);
  const uint64_t moves = Moves();
  idle_ticks_ = moves - last_moves_ < kIdleMoves ? idle_ticks_ + 1 : 0;
  last_moves_ = moves;
  HeapTick result;
  result.idle = idle_ticks_ != 0;
  const bool settle = idle_ticks_ >= kSettleTicks;
  large_.Tick();
  for (size_t c = 1; c < kNumClasses; ++c) transfer_.Plunder(static_cast<SizeClass>(c), settle);
  if (!release) return result;
  const bool idle = idle_ticks_ >= kIdleTicks;
  const uint32_t age = idle ? kIdleTicks - 1 : kBusyTicks;
  for (size_t c = 1; c < kNumClasses && tick_ > age; ++c)
    central_[c].ReleaseEmpty(tick_ - (idle ? 1 : 2));
  // Calls that the caches serve leave no trace below; using its CPUs, the program works all the
  // same, and has its hugepages under its feet.
  const Program program = settle && cpu == CpuUse::kLittle ? Program::kRests : Program::kWorks;
  rest_ticks_ = program == Program::kRests ? rest_ticks_ + 1 : 0;
  const bool rests = rest_ticks_ > kIdleTicks - kSettleTicks;
  if (rests || tick_ % kBusyTicks == 0) {
    const uint32_t untouched = rests ? kIdleTicks - 1 : kBusyTicks;
    const size_t least_gain = page_heap_.LeastGainNow(program);
    if (tick_ > untouched && kernel_.NowNs() >= next_survey_ns_ &&
        (SpansChanged() || least_gain < surveyed_for_)) {
      result.released_bytes +=
          ReleaseInSpans(tick_ - untouched, rests ? SIZE_MAX : kBusyBytes, program);
      surveyed_for_ = least_gain;
    }
    surveyed_for_ = std::max(surveyed_for_, least_gain);
  }
  result.released_bytes += page_heap_.Tick(settle, program);
  last_moves_ = Moves();  // our own work is not the program's
  return result;
}

// First all spans are surveyed, so that each hugepage is judged by all that it would free.
template <class Kernel>
size_t StrataHeap<Kernel>::ReleaseInSpans(uint32_t before, size_t limit, Program program) {
  const uint64_t begin = kernel_.NowNs();
  page_heap_.BeginSurvey();
  bool idle[kMaxClasses];
  for (size_t c = 1; c < kNumClasses; ++c) idle[c] = central_[c].SurveyIdle(before);
  // What follows is done once for each page that goes; a survey may be in vain.
  const uint64_t end = kernel_.NowNs();
  next_survey_ns_ = end + (end - begin) * kSurveyRest;
  size_t released = 0;
  for (size_t c = 1; c < kNumClasses; ++c) {
    if (!idle[c]) continue;
    central_[c].SearchAnew();
    released += central_[c].ReleaseIdle(before, limit, program);
  }
  return released;
}

template <class Kernel>
size_t StrataHeap<Kernel>::ReleaseNow(size_t bytes) {
  EmptyCaches();
  size_t released = page_heap_.ReleaseNow(bytes);
  if (SpansWereRebuilt()) {
    for (size_t c = 1; c < kNumClasses; ++c) central_[c].SearchAnew();
  }
  for (size_t c = 1; c < kNumClasses && released < bytes; ++c) {
    released += central_[c].ReleaseIdle(UINT32_MAX, bytes - released, Program::kIsShort);
  }
  return released;
}

}  // namespace strata
