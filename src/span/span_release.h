// The part of the central free list that gives back native pages inside spans still in use: which
// pages hold no object, and the dance that keeps others off them meanwhile. Included by
// central_free_list.h only. Sits in span; design §4.4: "free bits kept outside the objects let even
// pages inside a live span go back".
#pragma once

#include <bit>
#include <cstdint>

#include "span/central_free_list.h"

namespace strata {

// The native pages that an object touches, by bit.
inline uint64_t NativePagesOfObject(size_t index, size_t size) {
  const size_t first = index * size >> kNativePageShift;
  const size_t last = ((index + 1) * size - 1) >> kNativePageShift;
  const size_t n = last - first + 1;
  return (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << first;
}

// The native pages of a span on which no object lives. The span has at most 64.
inline uint64_t IdleNativePages(const Span& span, size_t size) {
  const size_t pages = span.num_pages * kNativePerPage;
  const uint64_t all = pages >= 64 ? ~uint64_t{0} : (uint64_t{1} << pages) - 1;
  uint64_t live = 0;
  for (size_t w = 0; w < span.bitmap_words; ++w) {
    const size_t left = span.objects - w * 64;
    uint64_t word = ~span.free_bits()[w] & (left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1);
    for (; word != 0; word &= word - 1) {
      live |= NativePagesOfObject(w * 64 + static_cast<size_t>(std::countr_zero(word)), size);
    }
  }
  return all & ~live;
}

// What one hold of a central list's lock looks at: objects given out of spans, and so many more for
// each span. Some tens of microseconds.
inline constexpr size_t kSearchSteps = 4096;
inline constexpr size_t kStepsOfASpan = 16;

// Spans out of everyone's reach, with the ranges of their idle native pages.
struct IsolatedSpans {
  static constexpr size_t kSpans = 64;
  static constexpr size_t kRanges = 512;
  static constexpr size_t kRangesOfASpan = 32;  // every second of 64 native pages

  Span* span[kSpans];
  uint16_t first_range[kSpans], count[kSpans];
  NativeRange ranges[kRanges];
  size_t spans = 0;
  size_t used = 0;
  size_t bytes = 0;

  bool IsFull() const { return spans == kSpans || used + kRangesOfASpan > kRanges; }

  // What the source left alone it cut to no bytes; of a span, all or nothing, because it lies in
  // one hugepage.
  bool LeftAlone(size_t i) const { return ranges[first_range[i]].bytes == 0; }
  // The pages of one of them that were not.
  uint64_t Tried(size_t i) const {
    uint64_t pages = 0;
    for (size_t r = first_range[i]; r < first_range[i] + count[i]; ++r) {
      const size_t n = ranges[r].bytes / kNativePageSize;
      const size_t at = (ranges[r].offset - span[i]->start_offset()) / kNativePageSize;
      pages |= (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << at;
    }
    return pages;
  }

  void Add(Span* s, uint64_t pages) {
    const size_t i = spans++;
    span[i] = s;
    first_range[i] = static_cast<uint16_t>(used);
    while (pages != 0) {
      const auto from = static_cast<size_t>(std::countr_zero(pages));
      const auto run = static_cast<size_t>(std::countr_one(pages >> from));
      ranges[used++] = {s->start_offset() + from * kNativePageSize, run * kNativePageSize};
      bytes += run * kNativePageSize;
      pages &= run >= 64 ? 0 : ~(((uint64_t{1} << run) - 1) << from);
    }
    count[i] = static_cast<uint16_t>(used - first_range[i]);
  }
};

// Some of what a survey found.
struct IdleSpans {
  static constexpr size_t kSpans = 64;

  NativePages spans[kSpans];
  size_t used = 0;
};

template <class Source>
void CentralFreeList<Source>::NoteReused(Span* span, void** objects, size_t n, Reused& reused) {
  const uintptr_t start = source_->base() + span->start_offset();
  const ClassInfo& info = InfoOf(class_);
  uint64_t touched = 0;
  for (size_t i = 0; i < n; ++i) {
    touched |= NativePagesOfObject(
        IndexOfOffset(info, reinterpret_cast<uintptr_t>(objects[i]) - start), info.size);
  }
  touched &= span->maybe_gone;
  span->maybe_gone &= ~touched;
  if (touched != 0) reused.spans[reused.count++] = {span->start_offset(), touched};
}

// Spans are isolated in batches, so that the kernel gets many ranges in one call. An isolated span
// is on no list, so nothing is taken from it; frees into it only set bits. If it emptied meanwhile,
// Rejoin puts it on the empty list and the next tick retires it. The isolation lock is held for one
// batch at a time: a fork waits for that much, and its child never finds a span isolated for good.
template <class Source>
size_t CentralFreeList<Source>::ReleaseIdle(uint32_t before, size_t limit, Program program) {
  const bool all = program == Program::kIsShort && left_alone_.load(std::memory_order_relaxed);
  if (all) SearchAnew();
  if (!given_since_scan_.exchange(false, std::memory_order_relaxed)) return 0;
  if (all) left_alone_.store(false, std::memory_order_relaxed);
  BeginSearch();
  size_t total = 0;
  Search search = Search::kGoesOn;
  while (search == Search::kGoesOn && total < limit) {
    LockHolder isolating(source_->isolation_lock());
    IsolatedSpans batch;
    search = Isolate(before, batch);
    if (batch.spans == 0) continue;
    const auto released = source_->ReleaseInUse(batch.ranges, batch.used, program);
    Rejoin(batch);
    total += released.bytes;
    if (released.refused) break;  // not tried again at once
  }
  if (search == Search::kGoesOn) given_since_scan_.store(true, std::memory_order_relaxed);
  return total;
}

// The same walk, over all spans, to count only.
template <class Source>
bool CentralFreeList<Source>::SurveyIdle(uint32_t before) {
  SearchAnew();
  given_since_scan_.store(false, std::memory_order_relaxed);
  BeginSearch();
  bool any = false;
  Search search = Search::kGoesOn;
  while (search == Search::kGoesOn) {
    IdleSpans batch;
    search = CountIdle(before, batch);
    if (batch.used == 0) continue;
    any = true;
    source_->NoteIdle(batch.spans, batch.used);
  }
  return any;
}

template <class Source>
void CentralFreeList<Source>::BeginSearch() {
  LockHolder hold(lock_);
  search_list_ = kLists - 1;
  search_next_ = nonempty_[search_list_].first();
}

// Calls f on spans with idle pages, from the emptiest on, until it says no or enough was looked at
// for one hold of the lock; the next call goes on from there. Spans that were searched go to the
// back of their list, touched ones come to its front, so a list is done at the first that this
// search has seen. f may isolate the span.
template <class Source>
template <class F>
auto CentralFreeList<Source>::Walk(uint32_t before, F f) -> Search {
  const size_t size = InfoOf(class_).size;
  bool goes_on = true;
  for (size_t steps = 0; goes_on && steps < kSearchSteps; steps += kStepsOfASpan) {
    Span* s = search_next_;
    if (s == nullptr || s->last_used == search_) {
      if (search_list_ == 0) return Search::kDone;
      search_next_ = nonempty_[--search_list_].first();
      continue;
    }
    search_next_ = IntrusiveList<Span>::Next(s);
    if (s->last_used >= before && s->last_used < kFirstSearch) {
      given_since_scan_.store(true, std::memory_order_relaxed);  // too fresh: come again
      continue;
    }
    s->last_used = search_;
    nonempty_[search_list_].Remove(s);
    const uint64_t idle = IdleNativePages(*s, size);
    steps += s->allocated;
    if (idle != 0) goes_on = f(s, idle);
    if (s->state == SpanState::kSmall) nonempty_[search_list_].PushBack(s);
  }
  return Search::kGoesOn;
}

template <class Source>
auto CentralFreeList<Source>::Isolate(uint32_t before, IsolatedSpans& batch) -> Search {
  LockHolder hold(lock_);
  return Walk(before, [&batch](Span* s, uint64_t idle) {
    s->state = SpanState::kIsolated;
    batch.Add(s, idle);
    return !batch.IsFull();
  });
}

template <class Source>
auto CentralFreeList<Source>::CountIdle(uint32_t before, IdleSpans& batch) -> Search {
  LockHolder hold(lock_);
  return Walk(before, [&batch](Span* s, uint64_t idle) {
    batch.spans[batch.used++] = {s->start_offset(), idle};
    return batch.used < IdleSpans::kSpans;
  });
}

// Whether the kernel took a page or not: maybe_gone says so. Not of pages that were left alone.
template <class Source>
void CentralFreeList<Source>::Rejoin(const IsolatedSpans& batch) {
  LockHolder hold(lock_);
  for (size_t i = 0; i < batch.spans; ++i) {
    Span* s = batch.span[i];
    s->state = SpanState::kSmall;
    s->maybe_gone |= batch.Tried(i);
    if (batch.LeftAlone(i)) left_alone_.store(true, std::memory_order_relaxed);
    Enlist(s);
    if (s->last_used >= kFirstSearch && IsListed(s) && s->allocated != 0) {
      Unlink(s);
      nonempty_[s->occupancy_list].PushBack(s);
    }
  }
}

}  // namespace strata
