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

// Spans out of everyone's reach, with the ranges of their idle native pages.
struct IsolatedSpans {
  static constexpr size_t kSpans = 64;
  static constexpr size_t kRanges = 512;
  static constexpr size_t kRangesOfASpan = 32;  // every second of 64 native pages

  Span* span[kSpans];
  uint64_t idle[kSpans];
  NativeRange ranges[kRanges];
  size_t spans = 0;
  size_t used = 0;
  size_t bytes = 0;

  bool IsFull() const { return spans == kSpans || used + kRangesOfASpan > kRanges; }

  void Add(Span* s, uint64_t pages) {
    span[spans] = s;
    idle[spans++] = pages;
    while (pages != 0) {
      const auto from = static_cast<size_t>(std::countr_zero(pages));
      const auto run = static_cast<size_t>(std::countr_one(pages >> from));
      ranges[used++] = {s->start_offset() + from * kNativePageSize, run * kNativePageSize};
      bytes += run * kNativePageSize;
      pages &= run >= 64 ? 0 : ~(((uint64_t{1} << run) - 1) << from);
    }
  }
};

template <class Source>
void CentralFreeList<Source>::NoteReused(Span* span, void** objects, size_t n) {
  const uintptr_t start = source_->base() + span->start_offset();
  const ClassInfo& info = InfoOf(class_);
  uint64_t touched = 0;
  for (size_t i = 0; i < n; ++i) {
    touched |= NativePagesOfObject(
        IndexOfOffset(info, reinterpret_cast<uintptr_t>(objects[i]) - start), info.size);
  }
  touched &= span->released_or_asked;
  span->released_or_asked &= ~touched;
  native_released_ -= static_cast<size_t>(std::popcount(touched));
  for (; touched != 0; touched &= touched - 1) {
    const size_t page = static_cast<size_t>(std::countr_zero(touched));
    source_->NoteReused({span->start_offset() + page * kNativePageSize, kNativePageSize});
  }
}

// Spans are isolated in batches, so that the kernel gets many ranges in one call. An isolated span
// is on no list, so nothing is taken from it; frees into it only set bits. If it emptied meanwhile,
// Rejoin puts it on the empty list and the next tick retires it. The isolation lock is held for one
// batch at a time: a fork waits for that much, and its child never finds a span isolated for good.
template <class Source>
size_t CentralFreeList<Source>::ReleaseIdle(uint32_t before, size_t limit) {
  if (!given_since_scan_.exchange(false, std::memory_order_relaxed)) return 0;
  size_t total = 0;
  bool more = true;
  while (more && total < limit) {
    LockHolder isolating(source_->isolation_lock());
    IsolatedSpans batch;
    more = Isolate(before, batch);
    if (batch.spans == 0) break;
    const size_t released = source_->ReleaseInUse(batch.ranges, batch.used);
    // Refused in part: which part is not known, so none counts as released. Not tried again at
    // once.
    const bool all = released == batch.bytes;
    Rejoin(batch, all);
    total += released;
    if (!all) break;
  }
  if (more) given_since_scan_.store(true, std::memory_order_relaxed);
  return total;
}

// Fills the batch from the emptiest spans on. Spans that were looked at go to the back of their
// list, touched ones come to its front, so a list is done at the first that was looked at before.
// Returns whether the batch filled up first.
template <class Source>
bool CentralFreeList<Source>::Isolate(uint32_t before, IsolatedSpans& batch) {
  const size_t size = InfoOf(class_).size;
  LockHolder hold(lock_);
  for (size_t list = kLists; list-- > 0;) {
    Span* next = nullptr;
    for (Span* s = nonempty_[list].first(); s != nullptr && s->last_used != kScanned; s = next) {
      next = IntrusiveList<Span>::Next(s);
      if (batch.IsFull()) return true;
      if (s->last_used >= before) {
        given_since_scan_.store(true, std::memory_order_relaxed);  // too fresh: come again
        continue;
      }
      s->last_used = kScanned;
      nonempty_[list].Remove(s);
      const uint64_t idle = IdleNativePages(*s, size) & ~s->released_or_asked;
      if (idle == 0) {
        nonempty_[list].PushBack(s);
        continue;
      }
      s->state = SpanState::kIsolated;
      batch.Add(s, idle);
    }
  }
  return false;
}

template <class Source>
void CentralFreeList<Source>::Rejoin(const IsolatedSpans& batch, bool released) {
  LockHolder hold(lock_);
  for (size_t i = 0; i < batch.spans; ++i) {
    Span* s = batch.span[i];
    s->state = SpanState::kSmall;
    if (released) {
      s->released_or_asked |= batch.idle[i];
      native_released_ += static_cast<size_t>(std::popcount(batch.idle[i]));
    }
    Enlist(s);
    if (s->last_used == kScanned && IsListed(s) && s->allocated != 0) {
      nonempty_[s->occupancy_list].Remove(s);
      nonempty_[s->occupancy_list].PushBack(s);
    }
  }
}

}  // namespace strata
