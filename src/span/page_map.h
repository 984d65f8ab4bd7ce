// From a page to its span and size class: two flat arrays over the heap's window, four bytes and
// one pointer a page, mapped in step with the heap. A free costs one bounds check and one load.
// Sits in span. Reads take no lock: an entry is written before the first object of its span is
// handed out, and changes only after the last one came back, so the program's own ordering of the
// block's life orders the accesses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/size_class.h"
#include "base/units.h"
#include "span/object_start.h"

namespace strata {

struct Span;

// What the pages of a block are entered as, in place of its class, while its owner makes blocks of
// its own of it: a free of one of those takes the slow path, as that of a sampled block does, and
// there finds the owner.
inline constexpr SizeClass kDividedPage{0xff};

class PageMap {
 public:
  constexpr PageMap() = default;

  // The two arrays, as the kernel maps them beside the heap.
  enum Array : size_t { kEntries, kSpans };
  static constexpr std::array<size_t, 2> kBytesAPage{sizeof(PageEntry), sizeof(Span*)};

  // `base` is the address of page 0; `entries` and `spans` are the starts of the arrays, readable
  // once mapped, and read as zero.
  void Attach(uintptr_t base, void* entries, Span** spans) {
    base_ = base;
    entries_ = static_cast<PageEntry*>(entries);
    spans_ = spans;
  }

  // For the fast path.
  const PageEntry* entries() const { return entries_; }

  SizeClass ClassOf(PageId p) const { return WithoutSampledPage(EntryOf(p)); }
  // The class, with kSampledPage where a sampled object starts on the page or its span is of a
  // group. That bit may change while others read the entry of their own blocks on the page, so it
  // is read as a whole and in no order: either value takes a free to its end.
  SizeClass EntryOf(PageId p) const {
    return ClassIn(__atomic_load_n(&entries_[p.raw()].class_bits, __ATOMIC_RELAXED));
  }
  // Called while a block on the page lives, so that only the other bits may change meanwhile; the
  // sampler's lock orders the calls.
  void SetSampled(PageId p) {
    __atomic_fetch_or(&entries_[p.raw()].class_bits, kSampledBit, __ATOMIC_RELAXED);
  }
  void SetSampled(PageRange range) {
    for (size_t i = 0; i < range.length.raw(); ++i) SetSampled(range.first + Pages(i));
  }
  void ClearSampled(PageId p) {
    __atomic_fetch_and(&entries_[p.raw()].class_bits, static_cast<uint16_t>(~kSampledBit),
                       __ATOMIC_RELAXED);
  }
  // From the class to kDividedPage or back, by whoever owns the one block that lies on these pages.
  // Of a large block only the first page is entered. No object starts on any of them meanwhile, so
  // that a free finds that out at the same place for all: which place it is would be mistaken for
  // the other half of the time where the blocks of one page are freed between those of another.
  void ToggleDivided(PageRange range, SizeClass size_class) {
    const size_t n = size_class == SizeClass::kNone ? 1 : range.length.raw();
    const auto change = static_cast<uint16_t>(ClassBits(size_class) ^ ClassBits(kDividedPage));
    for (size_t i = 0; i < n; ++i) {
      uint16_t* bits = &entries_[range.first.raw() + i].class_bits;
      entries_[range.first.raw() + i].start_key ^= kDividedKey;
      // Without the sampler's bit nobody else has business here.
      if (!IsSampledPage(EntryOf(range.first + Pages(i)))) {
        __atomic_store_n(bits, static_cast<uint16_t>(*bits ^ change), __ATOMIC_RELAXED);
      } else {
        __atomic_fetch_xor(bits, change, __ATOMIC_RELAXED);
      }
    }
  }
  Span* SpanOf(PageId p) const { return spans_[p.raw()]; }
  // The same of a page that others may take or give meanwhile. Records of spans stay readable.
  const Span* PeekSpan(PageId p) const {
    return __atomic_load_n(&spans_[p.raw()], __ATOMIC_RELAXED);
  }

  // Every page of a span with objects is entered; of a large block only the first, so that a huge
  // block costs no more than a small one and a pointer into its middle is found to be foreign.
  STRATA_NOINLINE void Set(PageRange range, Span* span, SizeClass size_class) {
    const size_t n = size_class == SizeClass::kNone ? 1 : range.length.raw();
    const uintptr_t start = AddressOf(range.first) + FirstIn(InfoOf(size_class), range.first.raw());
    for (size_t i = 0; i < n; ++i) {
      spans_[range.first.raw() + i] = span;
      entries_[range.first.raw() + i] =
          EntryFor(size_class, start, AddressOf(range.first + Pages(i)));
    }
  }
  void Clear(PageRange range, SizeClass size_class) {
    const size_t n = size_class == SizeClass::kNone ? 1 : range.length.raw();
    for (size_t i = 0; i < n; ++i) {
      spans_[range.first.raw() + i] = nullptr;
      entries_[range.first.raw() + i] = {};
    }
  }

 private:
  // Of the start of no object, as those are at even addresses, and large enough for that to show.
  static constexpr uint16_t kDividedKey = kPageFactor >> 16;
  static_assert(kDividedKey >= kStartBound >> 16);
  static constexpr uint16_t kSampledBit = uint16_t{kSampledPage} << kClassBitsShift;

  uintptr_t AddressOf(PageId p) const { return base_ + (p.raw() << kPageShift); }

  uintptr_t base_ = 0;
  PageEntry* entries_ = nullptr;
  Span** spans_ = nullptr;
};

}  // namespace strata
