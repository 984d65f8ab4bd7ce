// The spans of one size class that have room, with the lock that guards them: eight lists by the
// bit width of the number of objects given out, so that objects come from the fullest span and the
// emptier ones come free (span prioritisation: Z. Zhou et al., "Characterizing a memory allocator
// at warehouse scale", ASPLOS 2024, section 4.3), and one list of empty spans that are kept. Counts
// what shows whether that pays. One search at a time walks over them, from the emptiest on, a part
// in each hold of the lock. Sits in span, below the central free list.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/units.h"
#include "span/span.h"

namespace strata {

// Which span gives the next object. kLastIn is the order of allocators before span prioritisation,
// one list on which the span that got a free object last comes first: for experiments.
enum class SpanOrder : uint8_t { kFullestFirst, kLastIn };

// What one hold of the lock looks at in a search: objects given out of spans, and so many more for
// each span. Some tens of microseconds.
inline constexpr size_t kSearchSteps = 4096;
inline constexpr size_t kStepsOfASpan = 16;

class SpanLists {
 public:
  SpanLists() = default;
  SpanLists(const SpanLists&) = delete;
  SpanLists& operator=(const SpanLists&) = delete;

  void Init(SpanOrder order) { order_ = order; }

  mutable Lock lock{LockRank::kCentral};

  // One with room, if there is any.
  Span* Fullest() STRATA_REQUIRES(lock) {
    for (auto& list : nonempty_) {
      if (!list.empty()) return list.first();
    }
    return empty_.first();
  }

  // A new one, empty.
  void Add(Span* span) STRATA_REQUIRES(lock) {
    span->state = SpanState::kSmall;
    ++num_spans_;
    ++spans_taken_;
    num_pages_ += span->num_pages;
    num_objects_ += span->objects;
    empty_pages_ += span->num_pages;
    empty_.PushFront(span);
  }

  // Moves the span to the list that fits its new count, if that is another one.
  void Recount(Span* span, size_t allocated) STRATA_REQUIRES(lock) {
    const size_t before = span->allocated;
    NoteOccupancy(span, before, allocated);
    const bool stays = before != 0 && allocated != 0 && before < span->objects &&
                       allocated < span->objects && ListFor(before) == ListFor(allocated);
    if (stays && WasSearched(span) && IsListed(span)) {
      Unlink(span);  // see Walk
      nonempty_[span->occupancy_list].PushFront(span);
    }
    if (!stays) Delist(span);
    span->allocated = static_cast<uint16_t>(allocated);
    span->last_used = tick_;
    if (!stays) Enlist(span);
  }

  // As Recount with one less, if that changes nothing else; false: nothing done. In one tick the
  // span's bucket is seen once, and it is one of its own from one power of two to the next.
  bool CountOneLess(Span* span) STRATA_REQUIRES(lock) {
    const size_t before = span->allocated;
    const bool moves = before >= span->objects || (before & (before - 1)) == 0;
    if (moves || span->last_used != tick_) return false;
    span->allocated = static_cast<uint16_t>(before - 1);
    return true;
  }

  // Takes a span that came empty out, for the page heap; false: it is kept, so that a span's last
  // object coming and going does not reach that.
  bool TryRetire(Span* span) STRATA_REQUIRES(lock) {
    const bool in_use = spans_taken_ >= kTakenBeforeKept;
    if (in_use && empty_pages_ * kPageSize <= kKeptEmptyBytes) return false;
    RemoveEmpty(span);
    return true;
  }
  // Takes an empty one out that was not used since; null when there is none.
  Span* TakeUnused(uint32_t before) STRATA_REQUIRES(lock) {
    for (Span* s = empty_.last(); s != nullptr; s = IntrusiveList<Span>::Previous(s)) {
      if (s->last_used >= before) continue;
      RemoveEmpty(s);
      return s;
    }
    return nullptr;
  }

  // --- The search

  // The next search starts here, and sees all that none since the last SearchAnew has seen.
  void BeginSearch() STRATA_REQUIRES(lock) {
    search_list_ = kOccupancyBuckets - 1;
    search_next_ = nonempty_[search_list_].first();
  }
  // Spans that were searched and not touched since are searched once more.
  void SearchAnew() STRATA_REQUIRES(lock) {
    if (++search_ > kLastSearch) search_ = kFirstSearch;
  }

  enum class Searched : uint8_t { kSome, kAll };
  struct Walked {
    Searched searched;
    bool passed_fresh;  // spans used since `before`, not searched
  };
  // Calls f(Span*) on spans not used since `before`, from the emptiest on, until it says no or
  // enough was looked at for one hold of the lock; the next call goes on from there. Spans that
  // were searched go to the back of their list, touched ones come to its front, so a list is done
  // at the first that this search has seen. f may isolate the span.
  template <class F>
  Walked Walk(uint32_t before, F f) STRATA_REQUIRES(lock);

  // An isolated span is on no list: nothing is taken from it, and frees only set bits. If it came
  // empty meanwhile, it is kept until TakeUnused finds it.
  void Rejoin(Span* span) STRATA_REQUIRES(lock) {
    span->state = SpanState::kSmall;
    Enlist(span);
    if (WasSearched(span) && IsListed(span) && span->allocated != 0) {
      Unlink(span);
      nonempty_[span->occupancy_list].PushBack(span);
    }
  }

  // --- Counts

  size_t spans() const STRATA_REQUIRES(lock) { return num_spans_; }
  size_t pages() const STRATA_REQUIRES(lock) { return num_pages_; }      // of all spans
  size_t objects() const STRATA_REQUIRES(lock) { return num_objects_; }  // that they hold or could
  uint64_t spans_taken() const STRATA_REQUIRES(lock) { return spans_taken_; }
  uint64_t observed(size_t bucket) const STRATA_REQUIRES(lock) { return observed_[bucket]; }
  uint64_t returned(size_t bucket) const STRATA_REQUIRES(lock) { return returned_[bucket]; }

  // A look at how many spans there are of each occupancy; from now on use is stamped with the tick.
  void SetTick(uint32_t tick) STRATA_REQUIRES(lock) {
    tick_ = tick;
    for (size_t i = 0; i < kOccupancyBuckets; ++i) observed_[i] += in_bucket_[i];
  }

 private:
  // last_used of a span that was searched and not touched since: which search it was, far above all
  // ticks.
  static constexpr uint32_t kFirstSearch = uint32_t{1} << 31, kLastSearch = UINT32_MAX - 1;
  static constexpr size_t kKeptEmptyBytes = 64 << 10;
  // A buffer that grows passes through twenty classes, and takes a span or two of each: in a small
  // program what they all kept would be more than the rest of the heap.
  static constexpr uint64_t kTakenBeforeKept = 8;

  static bool WasSearched(const Span* span) { return span->last_used >= kFirstSearch; }

  // More objects given out, lower index; not for none.
  static size_t BucketOf(size_t allocated) {
    const size_t width = std::bit_width(allocated);
    return width >= kOccupancyBuckets ? 0 : kOccupancyBuckets - width;
  }
  size_t ListFor(size_t allocated) const {
    return order_ == SpanOrder::kFullestFirst ? BucketOf(allocated) : 0;
  }

  static bool IsListed(const Span* span) {
    return span->state == SpanState::kSmall && span->allocated < span->objects;
  }
  void Enlist(Span* span) STRATA_REQUIRES(lock) {
    if (!IsListed(span)) return;
    if (span->allocated == 0) {
      empty_.PushFront(span);
      empty_pages_ += span->num_pages;
      return;
    }
    span->occupancy_list = static_cast<uint8_t>(ListFor(span->allocated));
    nonempty_[span->occupancy_list].PushFront(span);
  }
  void Delist(Span* span) STRATA_REQUIRES(lock) {
    if (!IsListed(span)) return;
    if (span->allocated == 0) {
      empty_.Remove(span);
      empty_pages_ -= span->num_pages;
      return;
    }
    Unlink(span);
  }
  // The search may be about to look at it.
  void Unlink(Span* span) STRATA_REQUIRES(lock) {
    if (STRATA_UNLIKELY(span == search_next_)) search_next_ = IntrusiveList<Span>::Next(span);
    nonempty_[span->occupancy_list].Remove(span);
  }

  void RemoveEmpty(Span* span) STRATA_REQUIRES(lock) {
    empty_.Remove(span);
    empty_pages_ -= span->num_pages;
    --num_spans_;
    num_pages_ -= span->num_pages;
    num_objects_ -= span->objects;
    // Kept empty for a while or not: it was seen with objects at the last look before it emptied.
    if (span->seen_bucket != Span::kNotSeen) ++returned_[span->seen_bucket];
  }

  // Its first change since the last tick tells what that tick saw of the span.
  void NoteOccupancy(Span* span, size_t before, size_t after) STRATA_REQUIRES(lock) {
    if (before != 0) {
      const size_t bucket = BucketOf(before);
      --in_bucket_[bucket];
      if (span->last_used != tick_) span->seen_bucket = static_cast<uint8_t>(bucket);
    } else if (span->last_used != tick_) {
      span->seen_bucket = Span::kNotSeen;
    }
    if (after != 0) ++in_bucket_[BucketOf(after)];
  }

  SpanOrder order_ = SpanOrder::kFullestFirst;
  uint32_t tick_ STRATA_GUARDED_BY(lock) = 1;
  IntrusiveList<Span> nonempty_[kOccupancyBuckets] STRATA_GUARDED_BY(lock);  // some out, some free
  IntrusiveList<Span> empty_ STRATA_GUARDED_BY(lock);                        // none given out
  size_t empty_pages_ STRATA_GUARDED_BY(lock) = 0;
  size_t num_spans_ STRATA_GUARDED_BY(lock) = 0;
  size_t num_pages_ STRATA_GUARDED_BY(lock) = 0;
  size_t num_objects_ STRATA_GUARDED_BY(lock) = 0;
  uint64_t spans_taken_ STRATA_GUARDED_BY(lock) = 0;
  size_t in_bucket_[kOccupancyBuckets] STRATA_GUARDED_BY(lock) = {};  // spans now
  uint64_t observed_[kOccupancyBuckets] STRATA_GUARDED_BY(lock) = {};
  uint64_t returned_[kOccupancyBuckets] STRATA_GUARDED_BY(lock) = {};
  // Where the search goes on: the list, and the span if it is not its end.
  size_t search_list_ STRATA_GUARDED_BY(lock) = 0;
  Span* search_next_ STRATA_GUARDED_BY(lock) = nullptr;
  uint32_t search_ STRATA_GUARDED_BY(lock) = kFirstSearch;
};

template <class F>
SpanLists::Walked SpanLists::Walk(uint32_t before, F f) {
  Walked walked{Searched::kSome, false};
  bool goes_on = true;
  for (size_t steps = 0; goes_on && steps < kSearchSteps; steps += kStepsOfASpan) {
    Span* s = search_next_;
    if (s == nullptr || s->last_used == search_) {
      if (search_list_ == 0) {
        walked.searched = Searched::kAll;
        break;
      }
      search_next_ = nonempty_[--search_list_].first();
      continue;
    }
    search_next_ = IntrusiveList<Span>::Next(s);
    if (s->last_used >= before && !WasSearched(s)) {
      walked.passed_fresh = true;
      continue;
    }
    s->last_used = search_;
    nonempty_[search_list_].Remove(s);
    steps += s->allocated;
    goes_on = f(s);
    if (s->state == SpanState::kSmall) nonempty_[search_list_].PushBack(s);
  }
  return walked;
}

}  // namespace strata
