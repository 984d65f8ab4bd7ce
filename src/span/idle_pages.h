// The native pages of a span on which no object lives, and batches of such spans for the page heap:
// to be counted, or to be given back. Free bits kept outside the objects let even pages inside a
// live span go. Pure but for the batches; sits in span.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/page_run.h"
#include "os/page_kernel.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

// The native pages of its span that an object touches, by bit. The first object begins at `offset`.
constexpr uint64_t NativePagesOfObject(const ClassInfo& info, size_t offset, size_t index) {
  const size_t start = offset + index * info.size;
  const size_t first = start >> kNativePageShift;
  const size_t last = (start + info.size - 1) >> kNativePageShift;
  const size_t n = last - first + 1;
  return (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << first;
}

// The native pages of a span on which no object lives. The span has at most 64.
inline uint64_t IdleNativePages(const Span& span) {
  const ClassInfo& info = InfoOf(span.size_class);
  const size_t pages = span.num_pages * kNativePerPage;
  const uint64_t all = pages >= 64 ? ~uint64_t{0} : (uint64_t{1} << pages) - 1;
  const size_t before = span.first();
  uint64_t live = 0;
  for (size_t w = 0; w < span.bitmap_words; ++w) {
    const size_t left = span.objects - w * 64;
    uint64_t word = ~span.free_bits()[w] & (left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1);
    for (; word != 0; word &= word - 1) {
      live |=
          NativePagesOfObject(info, before, w * 64 + static_cast<size_t>(std::countr_zero(word)));
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
  uint16_t first_range[kSpans], count[kSpans];
  NativeRange ranges[kRanges];
  size_t spans = 0;
  size_t used = 0;

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

}  // namespace strata
