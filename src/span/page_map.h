// From a page to its span and size class: two flat arrays over the heap's window, one byte and one
// pointer a page, mapped in step with the heap. A free costs one bounds check and one load. Sits in
// span. Reads take no lock: an entry is written before the first object of its span is handed out,
// and changes only after the last one came back, so the program's own ordering of the block's life
// orders the accesses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/size_class.h"
#include "base/units.h"

namespace strata {

struct Span;

class PageMap {
 public:
  constexpr PageMap() = default;

  // `classes` and `spans` are the starts of the arrays; entries are readable once mapped and read
  // as zero.
  void Attach(uint8_t* classes, Span** spans) {
    classes_ = classes;
    spans_ = spans;
  }

  SizeClass ClassOf(PageId p) const { return WithoutSampledPage(EntryOf(p)); }
  // The class, with kSampledPage where a sampled object starts on the page. That bit may change
  // while others read the entry of their own blocks on the page, so the byte is read as a whole and
  // in no order: either value takes a free to its end.
  SizeClass EntryOf(PageId p) const {
    return static_cast<SizeClass>(__atomic_load_n(&classes_[p.raw()], __ATOMIC_RELAXED));
  }
  // Called while a block on the page lives, so that only the other bits may change meanwhile; the
  // sampler's lock orders the calls.
  void SetSampled(PageId p) {
    __atomic_fetch_or(&classes_[p.raw()], kSampledPage, __ATOMIC_RELAXED);
  }
  void ClearSampled(PageId p) {
    __atomic_fetch_and(&classes_[p.raw()], static_cast<uint8_t>(~kSampledPage), __ATOMIC_RELAXED);
  }
  // From the class to kReapPage or back, by whoever owns the one block that lies on these pages. Of
  // a large block only the first page is entered.
  void ToggleReap(PageRange range, SizeClass size_class) {
    const size_t n = size_class == SizeClass::kNone ? 1 : range.length.raw();
    const auto change = static_cast<uint8_t>(Raw(size_class) ^ Raw(kReapPage));
    for (size_t i = 0; i < n; ++i) {
      uint8_t* entry = &classes_[range.first.raw() + i];
      // Without the sampler's bit nobody else has business here.
      if (!IsSampledPage(EntryOf(range.first + Length(i)))) {
        __atomic_store_n(entry, static_cast<uint8_t>(*entry ^ change), __ATOMIC_RELAXED);
      } else {
        __atomic_fetch_xor(entry, change, __ATOMIC_RELAXED);
      }
    }
  }
  Span* SpanOf(PageId p) const { return spans_[p.raw()]; }

  // Every page of a span with objects is entered; of a large block only the first, so that a huge
  // block costs no more than a small one and a pointer into its middle is found to be foreign.
  void Set(PageRange range, Span* span, SizeClass size_class) {
    const size_t n = size_class == SizeClass::kNone ? 1 : range.length.raw();
    for (size_t i = 0; i < n; ++i) {
      spans_[range.first.raw() + i] = span;
      classes_[range.first.raw() + i] = static_cast<uint8_t>(size_class);
    }
  }
  void Clear(PageRange range, SizeClass size_class) {
    const size_t n = size_class == SizeClass::kNone ? 1 : range.length.raw();
    for (size_t i = 0; i < n; ++i) {
      spans_[range.first.raw() + i] = nullptr;
      classes_[range.first.raw() + i] = 0;
    }
  }

 private:
  uint8_t* classes_ = nullptr;
  Span** spans_ = nullptr;
};

}  // namespace strata
