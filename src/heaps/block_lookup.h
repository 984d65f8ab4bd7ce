// What the tiers know of an address that somebody calls a block: whether an object of a class
// begins there, whether it is free, which large block it is, and what is wrong with it. Reads the
// page map and the records of spans, takes no lock. Sits in heaps; the tiers report bad frees here,
// and the process says what becomes of them (malloc/bad_free.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "span/page_map.h"
#include "span/size_classes.h"
#include "span/span.h"

namespace strata {

// What became of a pointer that was handed to free.
enum class BadFree : uint8_t {
  kForeign,     // outside the heap
  kMisaligned,  // inside a block
  kDouble,
  kNotLive,  // inside the heap, but the start of no live block: freed before, or never one
};

using BadFreeHandler = void (*)(BadFree, void*);

// What the tiers below the caches know of an address in a span.
enum class ObjectState : uint8_t {
  kNone,      // no object begins there
  kFree,      // one does, and it is free
  kGivenOut,  // to the program or to a cache
};

// Kernel: base() and mapped_end() of the heap's window.
template <class Kernel>
class BlockLookup {
 public:
  BlockLookup(const Kernel& kernel, const PageMap& page_map, BadFreeHandler bad_free)
      : kernel_(kernel), page_map_(page_map), bad_free_(bad_free) {}

  // p: on a page that the map gives to this class. The free bit is read without the lock: that of
  // an object given out stays as it is until the object comes back.
  ObjectState StateOf(SizeClass c, const void* p) const {
    const size_t offset = OffsetIn(p);
    const Span* span = page_map_.SpanOf(PageOf(offset));
    if (span == nullptr || span->size_class != c) return ObjectState::kNone;
    const size_t from_first = offset - span->start_offset() - span->first();  // may be below 0
    const size_t index = IndexOfOffset(InfoOf(c), from_first);
    if (index >= span->objects || index * InfoOf(c).size != from_first) return ObjectState::kNone;
    const uint64_t word = __atomic_load_n(&span->free_bits()[index / 64], __ATOMIC_RELAXED);
    return (word >> (index % 64) & 1) != 0 ? ObjectState::kFree : ObjectState::kGivenOut;
  }

  // p: in the heap. The large block that starts there, or null.
  Span* LargeAt(const void* p) const {
    const size_t offset = OffsetIn(p);
    Span* span = page_map_.SpanOf(PageOf(offset));
    if (span == nullptr || span->state != SpanState::kLarge || span->block_offset() != offset)
      return nullptr;
    return span;
  }

  // p: in the heap, and the start of no block. Whether it lies inside a large one: a long search,
  // as only the first page of those is entered, and without an order to what others do there
  // meanwhile. For the words of a message alone.
  bool IsInsideLarge(const void* p) const {
    const size_t offset = OffsetIn(p), page = offset >> kPageShift;
    for (size_t back = 0; back <= page && back < kFarthestStart; ++back) {
      const Span* span = page_map_.PeekSpan(PageId(page - back));
      if (span == nullptr) continue;
      return span->state == SpanState::kLarge && back < span->range().length.raw() &&
             offset >= span->block_offset();
    }
    return false;
  }

  // p: in the heap, and no object that the central list which got it gave out.
  void ReportBadFree(void* p) const {
    const SizeClass c = page_map_.ClassOf(PageOf(OffsetIn(p)));
    const bool inside = c != SizeClass::kNone && StateOf(c, p) == ObjectState::kNone;
    bad_free_(inside ? BadFree::kMisaligned : BadFree::kDouble, p);
  }

 private:
  static constexpr size_t kFarthestStart = size_t{1} << 20;  // pages

  size_t OffsetIn(const void* p) const { return reinterpret_cast<uintptr_t>(p) - kernel_.base(); }
  static PageId PageOf(size_t offset) { return PageId(offset >> kPageShift); }

  const Kernel& kernel_;
  const PageMap& page_map_;
  const BadFreeHandler bad_free_;
};

}  // namespace strata
