// The generator of size classes, run by the compiler: eight classes a doubling above 128 B (so at
// most 12.5 % of a block is slack), multiples of 16 B below, and 8 B where the ABI lets alignment
// be 8. Each class gets a span length with a small tail, a batch size for moves between tiers, and
// a per-CPU capacity. Sits in span; where nothing here says otherwise, the constants are those of
// Google's TCMalloc (docs/design.md and common.h of google/tcmalloc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/placement.h"
#include "base/size_class.h"
#include "base/units.h"

namespace strata {

struct ClassInfo {
  uint32_t size = 0;        // bytes of an object
  uint16_t pages = 0;       // Strata pages of a span
  uint16_t objects = 0;     // objects of a span
  uint8_t short_pages = 0;  // of a short span, see SpanLength
  uint8_t starts = 0;       // places where the first object of a span may begin, see FirstIn
  uint16_t batch = 0;       // objects moved between caches at once
  uint16_t carved = 0;      // the most taken off spans at once
  uint16_t cpu_slots = 0;   // the most one vCPU's cache can hold
  uint64_t reciprocal = 0;  // ceil(2^40 / size): turns a byte offset into an object index
};

inline constexpr size_t kMaxClassSize = 256 << 10;
inline constexpr size_t kMaxClasses = 208;
// Spans with more objects than this are dense: they likely stay long (Z. Zhou et al.,
// "Characterizing a memory allocator at warehouse scale", ASPLOS 2024, section 4.4: C = 16).
inline constexpr size_t kDenseThreshold = 16;
inline constexpr size_t kMaxBatch = 128;
// A batch lies on the caller's stack in parts of so many objects; one for a chunk of a reap, which
// comes from deeper down, is of large classes, whose batches are this short.
inline constexpr size_t kOnStack = kMaxBatch / 2;
inline constexpr size_t kFewOnStack = 8;
inline constexpr size_t kReciprocalShift = 40;

// The first spans of a class are short: a small program uses dozens of classes, most of them for a
// few objects, and what a span has beyond those serves no other class. Once a class has spans that
// add up to a full one, it gets full ones.
enum class SpanLength : bool { kShort, kFull };

// Larger objects do not begin at native pages (FirstIn), except in classes that are powers of two:
// programs ask for those exactly, and want them aligned.
inline constexpr size_t kLargestUnshifted = 16 << 10;
inline constexpr size_t kShift = 64;

// Where the first object begins in a span that starts at the page. A copy to up to 31 bytes behind
// where its source begins in a native page takes 4 times as long in recv on an AMD EPYC (Zen 3),
// and 20 times in memcpy, and headers of strings and buffers are that short. So objects that share
// a span with at most one other begin at different places in it.
constexpr size_t FirstOf(size_t starts, size_t page) {
  if (starts == 0) return 0;
  uint32_t hash = static_cast<uint32_t>(page) * 0x9E3779B1;
  hash = (hash ^ hash >> 15) * 0x85EBCA77;
  return kShift * (1 + (uint64_t{hash} * starts >> 32));
}
constexpr size_t FirstIn(const ClassInfo& info, size_t page) { return FirstOf(info.starts, page); }
// The last that it may be.
constexpr size_t LastFirst(const ClassInfo& info) { return info.starts * kShift; }

namespace size_classes_internal {

// A span long enough that refills from it are cheap, yet short enough to come free when sizes
// change: at most 32 KiB up to 1 KiB, 16 KiB up to 2 KiB, 8 objects for middling ones, one object
// (or two, for a short tail) from 32 KiB on.
constexpr size_t WantedSpanBytes(size_t size) {
  if (size <= 1024) return size * 64 < 32768 ? size * 64 : 32768;
  if (size <= 2048) return 16384;
  if (size <= 8192) return size * 8;
  if (size < 32768) return size * 4;
  return size;
}

constexpr bool IsShifted(size_t nominal) {
  return nominal > kLargestUnshifted && !IsPowerOfTwo(nominal);
}
// See FirstIn. Where a span has several objects these differ anyway.
constexpr size_t Starts(size_t nominal) {
  if (!IsShifted(nominal)) return 0;
  return nominal < 32768 ? 1 : nominal < 65536 ? 7 : 15;
}
// Else sizes would lie between two steps of the table of classes (kCoarseStep).
static_assert(Starts(20480) % 2 == 1 && Starts(40960) % 2 == 1 && Starts(81920) % 2 == 1);
// What an object of the class has of its nominal size: so much less that no object begins at a
// border of a native page or just behind one, wherever the first of its span begins, all are
// aligned to kShift, and a span has as many. What asks for exactly a nominal size gets the next
// class, and neighbours share a native page, which goes back when both are free.
constexpr size_t ObjectBytes(size_t nominal) {
  return IsShifted(nominal) ? nominal - (Starts(nominal) + 1) * kShift : nominal;
}

// Lengthened while the unused tail is over 1/most_tail of the span.
constexpr size_t SpanPages(size_t bytes, size_t size, size_t first, size_t most_tail) {
  size_t pages = PagesCeil(bytes).raw();
  while ((pages * kPageSize - first) % size > pages * kPageSize / most_tail) ++pages;
  return pages;
}

constexpr size_t Clamp(size_t n, size_t least, size_t most) {
  return n < least ? least : (n > most ? most : n);
}

constexpr ClassInfo MakeClass(size_t nominal) {
  ClassInfo info;
  const size_t size = ObjectBytes(nominal);
  info.size = static_cast<uint32_t>(size);
  info.starts = static_cast<uint8_t>(Starts(nominal));
  const size_t first = LastFirst(info);
  info.pages = static_cast<uint16_t>(SpanPages(WantedSpanBytes(nominal), size, first, 32));
  info.short_pages = static_cast<uint8_t>(Clamp(SpanPages(nominal, size, first, 8), 1, info.pages));
  info.objects = static_cast<uint16_t>((info.pages * kPageSize - first) / size);
  const size_t batch = (64 << 10) / size;
  info.carved = static_cast<uint16_t>(Clamp(batch, 2, kMaxBatch));
  info.batch = static_cast<uint16_t>(Clamp(batch, kFewOnStack, kMaxBatch));
  info.cpu_slots = static_cast<uint16_t>(
      Clamp((512 << 10) / size, Clamp((1536 << 10) / size, kFewOnStack, 64), 0xfffe));
  info.reciprocal = ((uint64_t{1} << kReciprocalShift) + size - 1) / size;
  return info;
}

constexpr size_t NextSize(size_t size) {
  if (size < 16) return size + 8;
  if (size < 128) return size + 16;
  size_t power = 128;
  while (power * 2 <= size) power *= 2;
  return size + power / 8;
}

struct Classes {
  std::array<ClassInfo, kMaxClasses> info{};
  size_t sizes = 0;
};

// Once more behind the last: the classes of lasting objects.
constexpr Classes Generate() {
  Classes c;
  for (size_t size = 8; size <= kMaxClassSize; size = NextSize(size))
    c.info[++c.sizes] = MakeClass(size);
  for (size_t i = 1; i <= c.sizes; ++i) c.info[c.sizes + i] = c.info[i];
  return c;
}

inline constexpr Classes kGenerated = Generate();

// Sizes up to 1 KiB are looked up in steps of 8 B, larger ones in steps of 128 B, in one table.
inline constexpr size_t kFineLimit = 1024;
inline constexpr size_t kFineEntries = kFineLimit / 8 + 1;
inline constexpr size_t kCoarseStep = 128;
inline constexpr size_t kCoarseEntries = kMaxClassSize / kCoarseStep + 1;

// Each class shifted, as the fast path needs it.
constexpr auto MakeLookup() {
  std::array<uint16_t, kFineEntries + kCoarseEntries> table{};
  size_t c = 1;
  for (size_t i = 0; i < kFineEntries; ++i) {
    while (kGenerated.info[c].size < i * 8) ++c;
    table[i] = ClassBits(static_cast<SizeClass>(c));
  }
  c = 1;
  for (size_t i = 0; i < kCoarseEntries; ++i) {
    while (kGenerated.info[c].size < i * kCoarseStep) ++c;
    table[kFineEntries + i] = ClassBits(static_cast<SizeClass>(c));
  }
  return table;
}

inline constexpr auto kLookup = MakeLookup();

}  // namespace size_classes_internal

inline constexpr size_t kNumSizes = size_classes_internal::kGenerated.sizes;
// With class 0. The first kNumSizes are what malloc uses unless told otherwise, by size; the others
// are those of lasting objects, in the same order.
inline constexpr size_t kNumClasses = 1 + 2 * kNumSizes;
static_assert(kNumClasses <= kMaxClasses);

constexpr bool IsLasting(SizeClass c) { return Raw(c) > kNumSizes; }
constexpr SizeClass LastingClass(SizeClass c) { return static_cast<SizeClass>(Raw(c) + kNumSizes); }
constexpr SizeClass PlainClass(SizeClass c) {
  return IsLasting(c) ? static_cast<SizeClass>(Raw(c) - kNumSizes) : c;
}

constexpr const ClassInfo& InfoOf(SizeClass c) {
  return size_classes_internal::kGenerated.info[Raw(c)];
}
// Few objects a span, or one: a miss in the caches costs a span, and an object in a cache keeps
// most of one from all other classes.
constexpr bool IsCostly(SizeClass c) { return InfoOf(c).objects <= 4; }
// Of a span of the class, by what is known of it without any hint.
constexpr Density DensityOf(SizeClass c) {
  return InfoOf(c).objects > kDenseThreshold ? Density::kDense : Density::kSparse;
}
constexpr Placement PlacementOf(SizeClass c) {
  return {.density = DensityOf(c),
          .lifetime = IsLasting(c) ? LifetimeClass::kLong : LifetimeClass::kUnknown};
}

// The class of the smallest object that holds `size` bytes, shifted; size must be at most
// kMaxClassSize.
STRATA_ALWAYS_INLINE constexpr uint16_t ClassBitsOfSize(size_t size) {
  using namespace size_classes_internal;
  const size_t index = STRATA_LIKELY(size <= kFineLimit)
                           ? (size + 7) / 8
                           : kFineEntries + (size + kCoarseStep - 1) / kCoarseStep;
  return kLookup[index];
}
STRATA_ALWAYS_INLINE constexpr SizeClass ClassOfSize(size_t size) {
  return ClassIn(ClassBitsOfSize(size));
}

constexpr bool IsAligned(const ClassInfo& info, size_t align) {
  return (info.size | (info.starts == 0 ? 0 : kShift)) % align == 0;
}

// The least class for a size and an alignment of at most a page; kNone above kMaxClassSize. Above
// kLargestUnshifted and kShift only powers of two serve.
constexpr SizeClass ClassOfAligned(size_t size, size_t align) {
  if (size < align) size = align;
  if (size > kMaxClassSize) return SizeClass::kNone;
  for (size_t c = Raw(ClassOfSize(size)); c <= kNumSizes; ++c) {
    if (IsAligned(InfoOf(static_cast<SizeClass>(c)), align)) return static_cast<SizeClass>(c);
  }
  return SizeClass::kNone;
}

// The same for malloc, but kNone where more than an eighth of a large object would be slack: a run
// of its own then takes less memory, and the time to fetch it from the page heap (0.2 to 0.4 us).
constexpr SizeClass LeanClassOfAligned(size_t size, size_t align) {
  const SizeClass c = ClassOfAligned(size, align);
  if (c == SizeClass::kNone || size <= kLargestUnshifted) return c;
  const size_t bytes = InfoOf(c).size;
  return bytes - size <= bytes / 8 ? c : SizeClass::kNone;
}

// The least class from a page on whose objects have their pages to themselves. At most
// kMaxClassSize.
constexpr SizeClass ClassOfWholePages(size_t size) {
  for (size_t c = Raw(ClassOfSize(size < kPageSize ? kPageSize : size)); c < kNumSizes; ++c) {
    const ClassInfo& info = InfoOf(static_cast<SizeClass>(c));
    if (info.objects == 1 ? PagesCeil(LastFirst(info) + info.size).raw() == info.pages
                          : info.starts == 0 && info.size % kPageSize == 0) {
      return static_cast<SizeClass>(c);
    }
  }
  return ClassOfSize(kMaxClassSize);
}

// The object index of a byte offset from the first object of a span.
constexpr size_t IndexOfOffset(const ClassInfo& info, size_t offset) {
  return (offset * info.reciprocal) >> kReciprocalShift;
}

struct SpanShape {
  size_t pages;
  size_t objects;
};
constexpr SpanShape ShapeOf(SizeClass c, SpanLength length) {
  const ClassInfo& info = InfoOf(c);
  if (length == SpanLength::kFull) return {info.pages, info.objects};
  return {info.short_pages, IndexOfOffset(info, info.short_pages * kPageSize - LastFirst(info))};
}

}  // namespace strata
