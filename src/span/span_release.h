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
// Enlist puts it on the empty list and the next tick retires it.
template <class Source>
size_t CentralFreeList<Source>::ReleaseIdle(uint32_t before, size_t limit) {
  constexpr size_t kSpansAtOnce = 64;
  constexpr size_t kRangesAtOnce = 512;
  const size_t size = InfoOf(class_).size;
  if (!given_since_scan_.exchange(false, std::memory_order_relaxed)) return 0;
  size_t total = 0;
  bool all_scanned = false;
  while (total < limit) {
    Span* isolated[kSpansAtOnce];
    NativeRange ranges[kRangesAtOnce];
    size_t spans = 0;
    size_t used = 0;
    lock_.Acquire();
    for (size_t list = kLists; list-- > 0 && spans < kSpansAtOnce;) {
      Span* next = nullptr;
      for (Span* s = nonempty_[list].first(); s != nullptr && spans < kSpansAtOnce; s = next) {
        next = IntrusiveList<Span>::Next(s);
        if (s->last_used == kScanned || s->num_pages * kNativePerPage > 64 ||
            used + 33 > kRangesAtOnce)
          continue;
        if (s->last_used >= before) {
          given_since_scan_.store(true, std::memory_order_relaxed);  // too fresh: come again
          continue;
        }
        s->last_used = kScanned;
        uint64_t idle = IdleNativePages(*s, size) & ~s->released_or_asked;
        if (idle == 0) continue;
        Delist(s);
        s->state = SpanState::kIsolated;
        s->released_or_asked |= idle;
        native_released_ += static_cast<size_t>(std::popcount(idle));
        isolated[spans++] = s;
        while (idle != 0) {
          const auto from = static_cast<size_t>(std::countr_zero(idle));
          const auto run = static_cast<size_t>(std::countr_one(idle >> from));
          ranges[used++] = {s->start_offset() + from * kNativePageSize, run * kNativePageSize};
          idle &= run >= 64 ? 0 : ~(((uint64_t{1} << run) - 1) << from);
        }
      }
    }
    lock_.Release();
    all_scanned = spans == 0;
    if (all_scanned) break;
    total += source_->ReleaseInUse(ranges, used);
    lock_.Acquire();
    for (size_t i = 0; i < spans; ++i) {
      isolated[i]->state = SpanState::kSmall;
      Enlist(isolated[i]);
    }
    lock_.Release();
  }
  if (!all_scanned) given_since_scan_.store(true, std::memory_order_relaxed);
  return total;
}

}  // namespace strata
