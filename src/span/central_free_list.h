// The middle tier: all spans of one size class. Objects are taken from the fullest span first, so
// that the emptier ones come free (span prioritisation: papers §4; eight lists by the bit width of
// the objects given out: §2.8), and free native pages inside spans nobody touches can be given back
// (design §4.4). Sits in span, between the transfer cache above and the page heap below.
//
// Thread-safe. The lock is dropped before the page heap is called.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/units.h"
#include "hugepage/break_policy.h"
#include "hugepage/page_run.h"
#include "os/page_kernel.h"
#include "span/page_map.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

// Which span gives the next object. kLastIn is the order of allocators before span prioritisation,
// one list on which the span that got a free object last comes first: for experiments.
enum class SpanOrder : uint8_t { kFullestFirst, kLastIn };

struct CentralStats {
  size_t spans = 0;
  size_t objects_out = 0;  // given to the tiers above
  size_t objects_free = 0;
  uint64_t spans_taken = 0;  // from the page heap, and given back to it, since the start
  uint64_t spans_returned = 0;
  // Span return rate (papers §4, Figure 13): spans seen at each tick by bucket, and how many of
  // those emptied before the next one and went back.
  uint64_t observed[kOccupancyBuckets] = {};
  uint64_t returned[kOccupancyBuckets] = {};
};

struct IsolatedSpans;
struct IdleSpans;

// Source gives spans: Span* TakeSpan(SizeClass), void GiveSpan(Span*), PageMap& page_map(),
// uintptr_t base(), InUseRelease ReleaseInUse(NativeRange*, n, Program), Lock& isolation_lock(),
// void NoteIdle(const NativePages*, n), void NoteReused(const NativePages*, n) and void
// ReportBadFree(void*).
template <class Source>
class CentralFreeList {
 public:
  void Init(SizeClass size_class, Source* source, SpanOrder order = SpanOrder::kFullestFirst) {
    class_ = size_class;
    source_ = source;
    order_ = order;
  }

  // Takes up to n objects; fewer only when memory is short.
  size_t Take(void** out, size_t n) STRATA_EXCLUDES(lock_) {
    size_t got = 0;
    Reused reused;
    lock_.Acquire();
    CountMove();
    while (got < n) {
      Span* span = FullestSpan();
      if (span == nullptr) {
        lock_.Release();
        span = source_->TakeSpan(class_);
        lock_.Acquire();
        if (span == nullptr) break;
        AddSpan(span);
      }
      got += TakeFrom(span, out + got, n - got, reused);
      if (STRATA_UNLIKELY(reused.count == Reused::kMost)) {
        lock_.Release();
        Report(reused);
        lock_.Acquire();
      }
    }
    lock_.Release();
    if (STRATA_UNLIKELY(reused.count != 0)) Report(reused);
    return got;
  }

  // The first object of a span taken for it, among what lives long: Span* TakeLongLivedSpan(
  // SizeClass). Null when memory is short. For classes of one object a span; other objects of the
  // span are free for all.
  void* TakeLongLived() STRATA_EXCLUDES(lock_) {
    Span* span = source_->TakeLongLivedSpan(class_);
    if (span == nullptr) return nullptr;
    LockHolder hold(lock_);
    CountMove();
    AddSpan(span);
    void* object = nullptr;
    Reused none;  // the span is new
    TakeFrom(span, &object, 1, none);
    return object;
  }

  void Give(void* const* objects, size_t n) STRATA_EXCLUDES(lock_) {
    Span* empty = nullptr;  // spans to hand to the page heap, chained by list_next
    void* bad = nullptr;    // the last that is no object given out
    lock_.Acquire();
    CountMove();
    for (size_t i = 0; i < n;) i += GiveRun(objects + i, n - i, empty, bad);
    lock_.Release();
    if (STRATA_UNLIKELY(bad != nullptr)) source_->ReportBadFree(bad);
    while (empty != nullptr) {
      Span* next = empty->list_next;
      empty->list_next = nullptr;
      source_->GiveSpan(empty);
      empty = next;
    }
  }

  // Tells the source of the native pages that hold no object, of all spans not touched since
  // `before`. False: there are none. Background thread only.
  bool SurveyIdle(uint32_t before) STRATA_EXCLUDES(lock_);
  // Gives them back, where the source finds it worth while; at most `limit` bytes, and nothing
  // unless objects came back, or SearchAnew was called, since it last did. Returns the bytes given
  // back. Background thread only.
  size_t ReleaseIdle(uint32_t before, size_t limit, Program program) STRATA_EXCLUDES(lock_);
  bool GivenSinceRelease() const { return given_since_scan_.load(std::memory_order_relaxed); }

  // Hands the empty spans that were kept for reuse to the page heap.
  void ReleaseEmpty(uint32_t before) STRATA_EXCLUDES(lock_) {
    while (true) {
      Span* span = nullptr;
      lock_.Acquire();
      for (Span* s = empty_.last(); s != nullptr; s = IntrusiveList<Span>::Previous(s)) {
        if (s->last_used < before) {
          span = s;
          break;
        }
      }
      if (span != nullptr) {
        empty_.Remove(span);
        --num_empty_;
        Forget(span);
      }
      lock_.Release();
      if (span == nullptr) return;
      source_->GiveSpan(span);
    }
  }

  // Objects given out; readable without the lock because it is written only under it.
  size_t objects_out() const { return objects_out_.load(std::memory_order_relaxed); }

  // Objects given out of a span, of which the caller keeps one from being freed.
  size_t TakenFrom(const Span* span) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return span->allocated;
  }

  // Spans that were searched for idle native pages and not touched since are searched once more:
  // the kernel gave some of them memory again.
  void SearchAnew() STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    if (++search_ > kLastSearch) search_ = kFirstSearch;
    given_since_scan_.store(true, std::memory_order_relaxed);
  }

  // Calls of Take and Give so far.
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }

  CentralStats Stats() STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    CentralStats s;
    s.spans = num_spans_;
    s.objects_out = objects_out();
    s.objects_free = num_spans_ * InfoOf(class_).objects - s.objects_out;
    s.spans_taken = spans_taken_;
    s.spans_returned = spans_taken_ - num_spans_;
    for (size_t i = 0; i < kOccupancyBuckets; ++i) {
      s.observed[i] = observed_[i];
      s.returned[i] = returned_[i];
    }
    return s;
  }

  // A look at how many spans there are of each occupancy. Background thread only.
  void set_tick(uint32_t tick) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    tick_.store(tick, std::memory_order_relaxed);
    for (size_t i = 0; i < kOccupancyBuckets; ++i) observed_[i] += in_bucket_[i];
  }
  Lock& lock() { return lock_; }

 private:
  static constexpr size_t kLists = kOccupancyBuckets;
  // last_used of a span that was searched for idle pages and not touched since: which search it
  // was, far above all ticks.
  static constexpr uint32_t kFirstSearch = uint32_t{1} << 31, kLastSearch = UINT32_MAX - 1;
  // Empty spans kept, so that a span's last object coming and going does not reach the page heap.
  static constexpr size_t kKeptEmptyBytes = 64 << 10;

  // Pages that objects were taken on, to be reported without the lock and before anybody gets the
  // objects: until then none of them can come free, so nobody gives the pages back.
  struct Reused {
    static constexpr size_t kMost = 4;  // on the caller's stack
    size_t count = 0;
    NativePages spans[kMost];
  };
  void Report(Reused& reused) STRATA_EXCLUDES(lock_) {
    source_->NoteReused(reused.spans, reused.count);
    reused.count = 0;
  }

  void CountMove() STRATA_REQUIRES(lock_) {
    moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // More objects given out, lower index; not for none.
  static size_t BucketOf(size_t allocated) {
    const size_t width = std::bit_width(allocated);
    return width >= kLists ? 0 : kLists - width;
  }
  size_t ListFor(size_t allocated) const {
    return order_ == SpanOrder::kFullestFirst ? BucketOf(allocated) : 0;
  }

  Span* FullestSpan() STRATA_REQUIRES(lock_) {
    for (auto& list : nonempty_) {
      if (!list.empty()) return list.first();
    }
    return empty_.first();
  }

  void AddSpan(Span* span) STRATA_REQUIRES(lock_) {
    span->state = SpanState::kSmall;
    ++num_spans_;
    ++spans_taken_;
    ++num_empty_;
    empty_.PushFront(span);
  }

  bool IsListed(const Span* span) const STRATA_REQUIRES(lock_) {
    return span->state == SpanState::kSmall && span->allocated < span->objects;
  }
  void Enlist(Span* span) STRATA_REQUIRES(lock_) {
    if (!IsListed(span)) return;
    if (span->allocated == 0) {
      empty_.PushFront(span);
      ++num_empty_;
      return;
    }
    span->occupancy_list = static_cast<uint8_t>(ListFor(span->allocated));
    nonempty_[span->occupancy_list].PushFront(span);
  }
  void Delist(Span* span) STRATA_REQUIRES(lock_) {
    if (!IsListed(span)) return;
    if (span->allocated == 0) {
      empty_.Remove(span);
      --num_empty_;
      return;
    }
    Unlink(span);
  }
  // The search may be about to look at it.
  void Unlink(Span* span) STRATA_REQUIRES(lock_) {
    if (STRATA_UNLIKELY(span == search_next_)) search_next_ = IntrusiveList<Span>::Next(span);
    nonempty_[span->occupancy_list].Remove(span);
  }

  // Moves the span to the list that fits its new count, if that is another one.
  void Recount(Span* span, size_t allocated) STRATA_REQUIRES(lock_) {
    const size_t before = span->allocated;
    NoteOccupancy(span, before, allocated);
    const bool stays = before != 0 && allocated != 0 && before < span->objects &&
                       allocated < span->objects && ListFor(before) == ListFor(allocated);
    if (stays && span->last_used >= kFirstSearch && IsListed(span)) {
      Unlink(span);  // touched again: see Isolate
      nonempty_[span->occupancy_list].PushFront(span);
    }
    if (!stays) Delist(span);
    span->allocated = static_cast<uint16_t>(allocated);
    span->last_used = tick_.load(std::memory_order_relaxed);
    if (!stays) Enlist(span);
  }

  // Its first change since the last tick tells what that tick saw of the span.
  void NoteOccupancy(Span* span, size_t before, size_t after) STRATA_REQUIRES(lock_) {
    if (before != 0) {
      const size_t bucket = BucketOf(before);
      --in_bucket_[bucket];
      if (span->last_used != tick_.load(std::memory_order_relaxed))
        span->seen_bucket = static_cast<uint8_t>(bucket);
    } else if (span->last_used != tick_.load(std::memory_order_relaxed)) {
      span->seen_bucket = Span::kNotSeen;
    }
    if (after != 0) ++in_bucket_[BucketOf(after)];
  }

  size_t TakeFrom(Span* span, void** out, size_t n, Reused& reused) STRATA_REQUIRES(lock_) {
    const size_t size = InfoOf(class_).size;
    const uintptr_t start = source_->base() + span->start_offset();
    uint64_t* bits = span->free_bits();
    size_t got = 0;
    for (size_t w = 0; w < span->bitmap_words && got < n; ++w) {
      uint64_t word = bits[w];
      const uintptr_t word_start = start + w * 64 * size;
      while (word != 0 && got < n) {
        out[got++] = reinterpret_cast<void*>(word_start +
                                             static_cast<size_t>(std::countr_zero(word)) * size);
        word &= word - 1;
      }
      bits[w] = word;
    }
    if (span->maybe_gone != 0) NoteReused(span, out, got, reused);
    Recount(span, span->allocated + got);
    objects_out_.store(objects_out() + got, std::memory_order_relaxed);
    return got;
  }

  // Gives the leading objects that share a span; returns how many it dealt with.
  size_t GiveRun(void* const* objects, size_t n, Span*& empty, void*& bad) STRATA_REQUIRES(lock_) {
    const ClassInfo& info = InfoOf(class_);
    const auto first = reinterpret_cast<uintptr_t>(objects[0]) - source_->base();
    Span* span = source_->page_map().SpanOf(PageId(first >> kPageShift));
    if (STRATA_UNLIKELY(span == nullptr || span->size_class != class_)) {
      bad = objects[0];
      return 1;
    }
    const uintptr_t start = source_->base() + span->start_offset();
    const size_t bytes = span->num_pages * kPageSize;
    uint64_t* bits = span->free_bits();
    size_t dealt = 0;
    size_t freed = 0;
    // Neighbours are often freed together: the word they share stays in a register.
    size_t at = 0;
    uint64_t word = bits[0];
    for (; dealt < n; ++dealt) {
      const size_t offset = reinterpret_cast<uintptr_t>(objects[dealt]) - start;
      if (offset >= bytes) break;
      const size_t index = IndexOfOffset(info, offset);
      if (index / 64 != at) {
        bits[at] = word;
        at = index / 64;
        word = bits[at];
      }
      const uint64_t bit = uint64_t{1} << (index % 64);
      if (STRATA_UNLIKELY(index >= span->objects || index * info.size != offset ||
                          (word & bit) != 0)) {
        bad = objects[dealt];  // misaligned, or freed before
        continue;
      }
      word |= bit;
      ++freed;
    }
    bits[at] = word;
    objects_out_.store(objects_out() - freed, std::memory_order_relaxed);
    given_since_scan_.store(true, std::memory_order_relaxed);
    Recount(span, span->allocated - freed);
    if (span->allocated == 0 && span->state == SpanState::kSmall && freed != 0)
      RetireIfMany(span, empty);
    return dealt;
  }

  void RetireIfMany(Span* span, Span*& empty) STRATA_REQUIRES(lock_) {
    if (num_empty_ * span->num_pages * kPageSize <= kKeptEmptyBytes) return;
    empty_.Remove(span);
    --num_empty_;
    Forget(span);
    span->list_next = empty;
    empty = span;
  }

  void Forget(Span* span) STRATA_REQUIRES(lock_) {
    --num_spans_;
    // Kept empty for a while or not: it was seen with objects at the last look before it emptied.
    if (span->seen_bucket != Span::kNotSeen) ++returned_[span->seen_bucket];
  }

  void NoteReused(Span* span, void** objects, size_t n, Reused& reused) STRATA_REQUIRES(lock_);
  enum class Search : uint8_t { kGoesOn, kDone };
  void BeginSearch() STRATA_EXCLUDES(lock_);
  template <class F>
  Search Walk(uint32_t before, F f) STRATA_REQUIRES(lock_);
  Search Isolate(uint32_t before, IsolatedSpans& batch) STRATA_EXCLUDES(lock_);
  Search CountIdle(uint32_t before, IdleSpans& batch) STRATA_EXCLUDES(lock_);
  void Rejoin(const IsolatedSpans& batch) STRATA_EXCLUDES(lock_);

  SizeClass class_ = SizeClass::kNone;
  SpanOrder order_ = SpanOrder::kFullestFirst;
  Source* source_ = nullptr;
  Lock lock_{LockRank::kCentral};
  std::atomic<uint32_t> tick_{1};
  // Whether a scan for idle native pages could find any; spares an idle program the walk over its
  // spans.
  std::atomic<bool> given_since_scan_{false};
  std::atomic<bool> left_alone_{false};  // idle pages, by the last release; background thread only
  IntrusiveList<Span> nonempty_[kLists] STRATA_GUARDED_BY(lock_);  // some given out, some free
  IntrusiveList<Span> empty_ STRATA_GUARDED_BY(lock_);             // none given out
  size_t num_empty_ STRATA_GUARDED_BY(lock_) = 0;
  size_t num_spans_ STRATA_GUARDED_BY(lock_) = 0;
  uint64_t spans_taken_ STRATA_GUARDED_BY(lock_) = 0;
  size_t in_bucket_[kOccupancyBuckets] STRATA_GUARDED_BY(lock_) = {};  // spans now
  uint64_t observed_[kOccupancyBuckets] STRATA_GUARDED_BY(lock_) = {};
  uint64_t returned_[kOccupancyBuckets] STRATA_GUARDED_BY(lock_) = {};
  // Where the search for idle native pages goes on: the list, and the span if it is not its end.
  size_t search_list_ STRATA_GUARDED_BY(lock_) = 0;
  Span* search_next_ STRATA_GUARDED_BY(lock_) = nullptr;
  uint32_t search_ STRATA_GUARDED_BY(lock_) = kFirstSearch;
  std::atomic<size_t> objects_out_{0};  // these two: written under the lock, read without it
  std::atomic<uint64_t> moves_{0};
};

}  // namespace strata

#include "span/span_release.h"
