// The middle tier: all spans of one size class. Objects are taken from the fullest span first
// (span_lists.h), and free native pages inside spans nobody touches can be given back
// (idle_search.h). Sits in span, between the transfer cache above and the page heap below.
//
// Thread-safe. The lock is dropped before the page heap is called.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/object_group.h"
#include "base/placement.h"
#include "base/prefetch.h"
#include "base/units.h"
#include "hugepage/break_policy.h"
#include "hugepage/page_run.h"
#include "os/page_kernel.h"
#include "span/idle_pages.h"
#include "span/idle_search.h"
#include "span/page_map.h"
#include "span/size_classes.h"
#include "span/span.h"
#include "span/span_lists.h"

namespace strata {

struct SpanUse {
  size_t taken;       // objects
  size_t idle_pages;  // native pages on which none of them lies
};

struct CentralStats {
  size_t spans = 0;
  size_t pages = 0;        // of the spans
  size_t objects_out = 0;  // given to the tiers above
  size_t objects_free = 0;
  uint64_t spans_taken = 0;  // from the page heap, and given back to it, since the start
  uint64_t spans_returned = 0;
  // Span return rate (Z. Zhou et al., ASPLOS 2024, Figure 13): spans seen at each tick by bucket,
  // and how many of those emptied before the next one and went back.
  uint64_t observed[kOccupancyBuckets] = {};
  uint64_t returned[kOccupancyBuckets] = {};

  void Add(const CentralStats& s) {
    spans += s.spans;
    pages += s.pages;
    objects_out += s.objects_out;
    objects_free += s.objects_free;
    spans_taken += s.spans_taken;
    spans_returned += s.spans_returned;
    for (size_t i = 0; i < kOccupancyBuckets; ++i) {
      observed[i] += s.observed[i];
      returned[i] += s.returned[i];
    }
  }
};

// Source gives spans: Span* TakeSpan(SizeClass, SpanLength),
// Span* TakeSpanIn(SizeClass, Placement), Span* TakeSpanOf(SizeClass, SpanLength, ObjectGroup),
// void GiveSpan(Span*), PageMap& page_map(), uintptr_t base(), what IdleSearch asks,
// void NoteReused(const NativePages*, n) and void ReportBadFree(void*).
template <class Source>
class CentralFreeList {
 public:
  // Of a group: its spans are of that group, and no objects of others are taken back.
  void Init(SizeClass size_class, Source* source, SpanOrder order = SpanOrder::kFullestFirst,
            ObjectGroup group = ObjectGroup::kNone) {
    class_ = size_class;
    group_ = group;
    source_ = source;
    spans_.Init(order);
  }

  // Takes up to n objects; fewer only when memory is short.
  size_t Take(void** out, size_t n) STRATA_EXCLUDES(spans_.lock) {
    size_t got = 0;
    Reused reused;
    spans_.lock.Acquire();
    CountMove();
    while (got < n) {
      Span* span = spans_.Fullest();
      if (span == nullptr) {
        const SpanLength length = NextLength();
        spans_.lock.Release();
        span = group_ == ObjectGroup::kNone ? source_->TakeSpan(class_, length)
                                            : source_->TakeSpanOf(class_, length, group_);
        spans_.lock.Acquire();
        if (span == nullptr) break;
        spans_.Add(span);
      }
      got += TakeFrom(span, out + got, n - got, reused);
      if (STRATA_UNLIKELY(reused.count == Reused::kMost)) {
        spans_.lock.Release();
        Report(reused);
        spans_.lock.Acquire();
      }
    }
    spans_.lock.Release();
    if (STRATA_UNLIKELY(reused.count != 0)) Report(reused);
    return got;
  }

  // The first object of a span taken for it where the placement says. Null when memory is short.
  // For classes of one object a span: other objects of the span are free for all.
  void* TakeIn(Placement placement) STRATA_EXCLUDES(spans_.lock) {
    Span* span = source_->TakeSpanIn(class_, placement);
    if (span == nullptr) return nullptr;
    LockHolder hold(spans_.lock);
    CountMove();
    spans_.Add(span);
    void* object = nullptr;
    Reused none;  // the span is new
    TakeFrom(span, &object, 1, none);
    return object;
  }

  void Give(void* const* objects, size_t n) STRATA_EXCLUDES(spans_.lock) {
    Span* empty = nullptr;  // spans to hand to the page heap, chained by list_next
    void* bad = nullptr;    // the last that is no object given out
    size_t freed = 0;
    FetchSpans(objects, n);
    spans_.lock.Acquire();
    CountMove();
    for (size_t i = 0; i < n;) {
      if (GiveAlone(objects + i, n - i)) {
        ++freed;
        ++i;
      } else {
        i += GiveRun(objects + i, n - i, freed, empty, bad);
      }
    }
    objects_out_.store(objects_out() - freed, std::memory_order_relaxed);
    idle_.NoteGiven();
    spans_.lock.Release();
    if (STRATA_UNLIKELY(bad != nullptr)) source_->ReportBadFree(bad);
    while (empty != nullptr) {
      Span* next = empty->list_next;
      empty->list_next = nullptr;
      source_->GiveSpan(empty);
      empty = next;
    }
  }

  // See IdleSearch. Background thread only.
  bool SurveyIdle(uint32_t before) STRATA_EXCLUDES(spans_.lock) {
    return idle_.Survey(spans_, *source_, before);
  }
  size_t ReleaseIdle(uint32_t before, size_t limit, Program program) STRATA_EXCLUDES(spans_.lock) {
    return idle_.Release(spans_, *source_, before, limit, program);
  }
  void SearchAnew() STRATA_EXCLUDES(spans_.lock) { idle_.Anew(spans_); }
  bool GivenSinceRelease() const { return idle_.may_find(); }

  // Hands the empty spans that were kept for reuse to the page heap.
  void ReleaseEmpty(uint32_t before) STRATA_EXCLUDES(spans_.lock) {
    while (true) {
      spans_.lock.Acquire();
      Span* span = spans_.TakeUnused(before);
      spans_.lock.Release();
      if (span == nullptr) return;
      source_->GiveSpan(span);
    }
  }

  // Objects given out; readable without the lock because it is written only under it.
  size_t objects_out() const { return objects_out_.load(std::memory_order_relaxed); }

  // What is given out of a span, of whose objects the caller keeps one from being freed.
  SpanUse UseOf(const Span* span) STRATA_EXCLUDES(spans_.lock) {
    LockHolder hold(spans_.lock);
    return {span->allocated, static_cast<size_t>(std::popcount(IdleNativePages(*span)))};
  }

  // Calls of Take and Give so far.
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }

  CentralStats Stats() STRATA_EXCLUDES(spans_.lock) {
    LockHolder hold(spans_.lock);
    CentralStats s;
    s.spans = spans_.spans();
    s.pages = spans_.pages();
    s.objects_out = objects_out();
    s.objects_free = spans_.objects() - s.objects_out;
    s.spans_taken = spans_.spans_taken();
    s.spans_returned = s.spans_taken - s.spans;
    for (size_t i = 0; i < kOccupancyBuckets; ++i) {
      s.observed[i] = spans_.observed(i);
      s.returned[i] = spans_.returned(i);
    }
    return s;
  }

  // A look at how many spans there are of each occupancy. Background thread only.
  void set_tick(uint32_t tick) STRATA_EXCLUDES(spans_.lock) {
    LockHolder hold(spans_.lock);
    spans_.SetTick(tick);
  }
  Lock& lock() STRATA_RETURN_CAPABILITY(spans_.lock) { return spans_.lock; }

 private:
  // Pages that objects were taken on, to be reported without the lock and before anybody gets the
  // objects: until then none of them can come free, so nobody gives the pages back.
  struct Reused {
    static constexpr size_t kMost = 2;  // on the caller's stack
    size_t count = 0;
    NativePages spans[kMost];
  };
  void Report(Reused& reused) STRATA_EXCLUDES(spans_.lock) {
    source_->NoteReused(reused.spans, reused.count);
    reused.count = 0;
  }

  // Objects freed in no order lie in as many spans, whose records are in no cache: they are fetched
  // side by side, before the lock, instead of one after another under it.
  // Of objects that lie side by side, one in eight is looked at.
  void FetchSpans(void* const* objects, size_t n) {
    constexpr size_t kOfNeighbours = 8;
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < n; i += StepAt(objects + i, n - i) == 0 ? 1 : kOfNeighbours) {
      const size_t page = (reinterpret_cast<uintptr_t>(objects[i]) - source_->base()) >> kPageShift;
      if (page == last) continue;
      last = page;
      const auto* record = reinterpret_cast<const char*>(source_->page_map().SpanOf(PageId(page)));
      if (record == nullptr) continue;  // a stranger's pointer, which is refused under the lock
      PrefetchToWrite(record);
      PrefetchToWrite(record + kCacheLine);
    }
  }

  // From the first object to the next, if they lie side by side; else 0.
  STRATA_ALWAYS_INLINE size_t StepAt(void* const* objects, size_t n) const {
    if (n == 1) return 0;
    const size_t size = InfoOf(class_).size;
    const size_t step =
        reinterpret_cast<uintptr_t>(objects[1]) - reinterpret_cast<uintptr_t>(objects[0]);
    return step == size || step == 0 - size ? step : 0;
  }

  uintptr_t FirstOf(const Span* span) const {
    return source_->base() + span->start_offset() + span->first();
  }

  SpanLength NextLength() const STRATA_REQUIRES(spans_.lock) {
    return spans_.pages() < InfoOf(class_).pages ? SpanLength::kShort : SpanLength::kFull;
  }

  void CountMove() STRATA_REQUIRES(spans_.lock) {
    moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  STRATA_NOINLINE size_t TakeFrom(Span* span, void** out, size_t n, Reused& reused)
      STRATA_REQUIRES(spans_.lock) {
    const size_t size = InfoOf(class_).size;
    const uintptr_t start = FirstOf(span);
    const size_t got = span->TakeFree(n, [&out, start, size](size_t first, size_t count) {
      uintptr_t object = start + first * size;
      void** const end = out + count;
      for (; end - out >= 4; out += 4, object += 4 * size)
        for (size_t i = 0; i < 4; ++i) out[i] = reinterpret_cast<void*>(object + i * size);
      for (; out != end; object += size) *out++ = reinterpret_cast<void*>(object);
    });
    if (span->maybe_gone != 0) NoteReused(span, out - got, got, reused);
    spans_.Recount(span, span->allocated + got);
    objects_out_.store(objects_out() + got, std::memory_order_relaxed);
    return got;
  }

  // Null for what lies in no span of this list.
  Span* OwnSpanOf(const void* object) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(object) - source_->base();
    Span* span = source_->page_map().SpanOf(PageId(offset >> kPageShift));
    const bool own = span != nullptr && span->size_class == class_ && span->group == group_;
    return STRATA_LIKELY(own) ? span : nullptr;
  }

  // Of the object that begins so far behind the first one of the span; none: kNoObject.
  static constexpr size_t kNoObject = SIZE_MAX;
  static size_t IndexAt(const ClassInfo& info, const Span& span, size_t from_first) {
    const size_t index = IndexOfOffset(info, from_first);
    const bool begins = index < span.objects && index * info.size == from_first;
    return STRATA_LIKELY(begins) ? index : kNoObject;
  }

  // Gives the first object if that is all there is to do: the next is no neighbour, and the span
  // stays on its list. Else false, with nothing done. Most objects freed in no order end here: a
  // third of the time of a free that reaches this tier.
  STRATA_ALWAYS_INLINE bool GiveAlone(void* const* objects, size_t n) STRATA_REQUIRES(spans_.lock) {
    const ClassInfo& info = InfoOf(class_);
    const auto object = reinterpret_cast<uintptr_t>(objects[0]);
    if (StepAt(objects, n) != 0) return false;
    Span* span = OwnSpanOf(objects[0]);
    if (STRATA_UNLIKELY(span == nullptr)) return false;
    const size_t index = IndexAt(info, *span, object - FirstOf(span));
    if (STRATA_UNLIKELY(index == kNoObject || span->IsFree(index))) return false;
    if (!spans_.CountOneLess(span)) return false;
    span->MarkFree(index);
    return true;
  }

  // Gives the leading objects that share a span; returns how many it dealt with.
  size_t GiveRun(void* const* objects, size_t n, size_t& all_freed, Span*& empty, void*& bad)
      STRATA_REQUIRES(spans_.lock) {
    const ClassInfo& info = InfoOf(class_);
    Span* span = OwnSpanOf(objects[0]);
    if (STRATA_UNLIKELY(span == nullptr)) {
      bad = objects[0];
      return 1;
    }
    const uintptr_t start = source_->base() + span->start_offset();
    const size_t bytes = span->num_pages * kPageSize;
    const size_t before = span->first();
    size_t dealt = 0;
    size_t freed = 0;
    while (dealt < n) {
      const size_t offset = reinterpret_cast<uintptr_t>(objects[dealt]) - start;
      if (offset >= bytes) break;
      const size_t index = IndexAt(info, *span, offset - before);
      if (STRATA_UNLIKELY(index == kNoObject)) {
        bad = objects[dealt++];
        continue;
      }
      const Neighbours run = NeighboursIn(objects + dealt, n - dealt, *span, index);
      // If some are free already, one at a time.
      const bool whole = span->MarkFree(run.lowest, run.count);
      if (STRATA_LIKELY(whole)) {
        freed += run.count;
        dealt += run.count;
        continue;
      }
      if (span->MarkFree(index, 1)) {
        ++freed;
      } else {
        bad = objects[dealt];  // freed before
      }
      ++dealt;
    }
    all_freed += freed;
    spans_.Recount(span, span->allocated - freed);
    if (span->allocated == 0 && span->state == SpanState::kSmall && freed != 0 &&
        spans_.TryRetire(span)) {
      span->list_next = empty;
      empty = span;
    }
    return dealt;
  }

  // Programs often free in the order in which they allocated, or in the opposite one: how many of
  // the objects, from the first on, whose index is given, lie side by side in the span.
  struct Neighbours {
    size_t lowest;  // index
    size_t count;
  };
  Neighbours NeighboursIn(void* const* objects, size_t n, const Span& span, size_t index) const {
    const auto at = [objects](size_t i) { return reinterpret_cast<uintptr_t>(objects[i]); };
    const size_t step = StepAt(objects, n);
    if (step == 0) return {index, 1};
    const bool ascends = step == InfoOf(class_).size;
    const size_t in_span = ascends ? span.objects - index : index + 1;
    const size_t most = in_span < n ? in_span : n;
    const auto off = [&at, step](size_t i) { return (at(i) - at(i - 1)) ^ step; };
    size_t count = 1;
    while (count + 4 <= most &&
           (off(count) | off(count + 1) | off(count + 2) | off(count + 3)) == 0)
      count += 4;
    while (count < most && off(count) == 0) ++count;
    return {ascends ? index : index + 1 - count, count};
  }

  void NoteReused(Span* span, void** objects, size_t n, Reused& reused)
      STRATA_REQUIRES(spans_.lock) {
    const uintptr_t start = FirstOf(span);
    const ClassInfo& info = InfoOf(class_);
    uint64_t touched = 0;
    for (size_t i = 0; i < n; ++i) {
      const size_t index = IndexOfOffset(info, reinterpret_cast<uintptr_t>(objects[i]) - start);
      touched |= NativePagesOfObject(info, span->first(), index);
    }
    touched &= span->maybe_gone;
    span->maybe_gone &= ~touched;
    if (touched != 0) reused.spans[reused.count++] = {span->start_offset(), touched};
  }

  SizeClass class_ = SizeClass::kNone;
  ObjectGroup group_ = ObjectGroup::kNone;
  Source* source_ = nullptr;
  SpanLists spans_;
  IdleSearch idle_;
  std::atomic<size_t> objects_out_{0};  // these two: written under the lock, read without it
  std::atomic<uint64_t> moves_{0};
};

}  // namespace strata
