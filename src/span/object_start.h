// What the page map says of a page in four bytes: the size class, and where the class's objects
// start, so that a free finds by one multiplication whether its pointer is the start of an object.
// Sits in span. After D. Lemire, O. Kaser and N. Kurz, "Faster Remainder by Direct Computation",
// Software: Practice and Experience 49(6), 2019, with the start of the span folded into the addend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/size_class.h"
#include "base/units.h"
#include "span/size_classes.h"

namespace strata {

// An object of the class starts at p where, in 32 bits, p * StartFactor + *entry < kStartBound.
// Below a page's size the factor is ceil(2^32 / size): a multiple of the size comes out as a small
// error, anything else as at least the factor. From a page's size on, at most one object starts on
// a page, and the test is whether p's low bits are those. `class_bits` are the low half of the
// addend and only add to the error; a test tries all classes and offsets.
//
// Two bytes would do: the class, and which page of its span it is. What Redis deletes in a script
// took as long (0.999, 0.882 to 1.132 over 21 pairs), and the works' threadtest 4 to 6 % longer (50
// pairs), since the test needs a mask more.
struct PageEntry {
  uint16_t class_bits;  // with kSampledPage, times the size of what a slab knows of a class
  uint16_t start_key;
};
static_assert(sizeof(PageEntry) == 4);

inline constexpr uint32_t kStartBound = 1u << 18;
inline constexpr uint32_t kPageFactor = 1u << (32 - kPageShift);
static_assert(kPageFactor >= kStartBound);

constexpr uint32_t StartFactor(SizeClass c) {
  const ClassInfo& info = InfoOf(c);
  if (info.size >= kPageSize) return kPageFactor;
  // ceil(2^32 / size), from ceil(2^40 / size) without a division.
  constexpr uint64_t kSmaller = uint64_t{1} << (kReciprocalShift - 32);
  return static_cast<uint32_t>((info.reciprocal + kSmaller - 1) / kSmaller);
}

// The entry of the page at `page` of a span whose first object starts at `start`.
constexpr PageEntry EntryFor(SizeClass c, uintptr_t start, uintptr_t page) {
  if (c == SizeClass::kNone) return {};
  const size_t size = InfoOf(c).size;
  if (size >= kPageSize) {
    if (page > start) start += (page - start + size - 1) / size * size;
    // A key that nothing fits, as all products are multiples of the factor.
    if (start - page >= kPageSize) return {ClassBits(c), kStartBound >> 16};
  }
  const uint32_t addend = 0 - static_cast<uint32_t>(start) * StartFactor(c);
  return {ClassBits(c), static_cast<uint16_t>((addend + 0xffff) >> 16)};
}

constexpr bool IsObjectStart(PageEntry entry, SizeClass c, uintptr_t p) {
  const uint32_t addend = uint32_t{entry.start_key} << 16 | entry.class_bits;
  return static_cast<uint32_t>(p) * StartFactor(c) + addend < kStartBound;
}

}  // namespace strata
