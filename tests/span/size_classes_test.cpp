// The generated size classes, checked for every size, object and alignment rather than by example.
#include "span/size_classes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace strata {
namespace {

SizeClass Class(size_t i) { return static_cast<SizeClass>(i); }

TEST(SizeClasses, EverySizeGetsTheSmallestClassThatHoldsIt) {
  size_t c = 1;
  for (size_t size = 0; size <= kMaxClassSize; ++size) {
    while (InfoOf(Class(c)).size < size) ++c;
    const size_t got = Raw(ClassOfSize(size));
    // Above 1 KiB sizes are looked up by 128 B steps: the classes are multiples of 128 there, so
    // nothing is lost.
    ASSERT_EQ(got, c) << "size " << size;
  }
}

TEST(SizeClasses, SlackIsAtMostAnEighthAbove128) {
  for (size_t size = 129; size <= kMaxClassSize; ++size) {
    const size_t given = InfoOf(ClassOfSize(size)).size;
    // 12.5 % of the block.
    ASSERT_LE((given - size) * 8, given) << "size " << size;
  }
  for (size_t size = 9; size <= 128; ++size) {
    ASSERT_LT(InfoOf(ClassOfSize(size)).size - size, 16u) << "size " << size;
  }
}

TEST(SizeClasses, OnlySizesUpToEightAreNotAlignedTo16) {
  EXPECT_EQ(InfoOf(ClassOfSize(0)).size, 8u);
  EXPECT_EQ(InfoOf(ClassOfSize(8)).size, 8u);
  EXPECT_EQ(InfoOf(ClassOfSize(9)).size, 16u);
  for (size_t c = 2; c <= kNumSizes; ++c) EXPECT_EQ(InfoOf(Class(c)).size % 16, 0u) << c;
}

TEST(SizeClasses, ClassesGrowAndEndAtTheLargest) {
  EXPECT_LE(kNumClasses, kMaxClasses);
  EXPECT_EQ(InfoOf(SizeClass::kNone).size, 0u);
  for (size_t c = 2; c <= kNumSizes; ++c) {
    EXPECT_LT(InfoOf(Class(c - 1)).size, InfoOf(Class(c)).size);
  }
  EXPECT_EQ(InfoOf(Class(kNumSizes)).size, kMaxClassSize);
}

TEST(SizeClasses, EachSizeHasAClassForWhatLasts) {
  for (size_t i = 1; i <= kNumSizes; ++i) {
    const SizeClass plain = Class(i), lasting = LastingClass(plain);
    EXPECT_FALSE(IsLasting(plain));
    EXPECT_TRUE(IsLasting(lasting));
    EXPECT_LT(Raw(lasting), kNumClasses);
    EXPECT_EQ(PlainClass(lasting), plain);
    EXPECT_EQ(PlainClass(plain), plain);
    EXPECT_EQ(InfoOf(lasting).size, InfoOf(plain).size);
    EXPECT_EQ(InfoOf(lasting).objects, InfoOf(plain).objects);
    EXPECT_EQ(PlacementOf(plain).lifetime, LifetimeClass::kUnknown);
    EXPECT_EQ(PlacementOf(lasting).lifetime, LifetimeClass::kLong);
  }
  for (size_t size = 0; size <= kMaxClassSize; size += 61) {
    EXPECT_FALSE(IsLasting(ClassOfSize(size)));
    EXPECT_FALSE(IsLasting(ClassOfAligned(size, 64)));
  }
}

TEST(SizeClasses, SpansAreWellFilled) {
  for (size_t i = 1; i < kNumClasses; ++i) {
    const ClassInfo& c = InfoOf(Class(i));
    SCOPED_TRACE(c.size);
    const size_t bytes = c.pages * kPageSize;
    ASSERT_GE(c.objects, 1u);
    EXPECT_LE(c.objects, 1024u);  // the widest bitmap of a span record
    const size_t used = LastFirst(c) + size_t{c.objects} * c.size;
    EXPECT_LE(used, bytes);
    const size_t tail = bytes - used;
    EXPECT_LT(tail, c.size);
    EXPECT_LE(tail * 32, bytes);
    EXPECT_LE(bytes, 64 * kNativePageSize);  // idle pages are a 64-bit mask
    EXPECT_EQ(DensityOf(Class(i)) == Density::kDense, c.objects > 16);
    EXPECT_EQ(PlacementOf(Class(i)).density, DensityOf(Class(i)));
  }
}

TEST(SizeClasses, ShortSpansAreTheShortestWithALittleTail) {
  EXPECT_EQ(ShapeOf(ClassOfSize(1024), SpanLength::kShort).pages, 1u);
  EXPECT_EQ(ShapeOf(ClassOfSize(1024), SpanLength::kShort).objects, 8u);
  EXPECT_EQ(ShapeOf(ClassOfSize(5120), SpanLength::kShort).pages, 2u);  // one has a tail of 3/8
  for (size_t i = 1; i < kNumClasses; ++i) {
    const ClassInfo& c = InfoOf(Class(i));
    SCOPED_TRACE(c.size);
    const SpanShape full = ShapeOf(Class(i), SpanLength::kFull);
    EXPECT_EQ(full.pages, c.pages);
    EXPECT_EQ(full.objects, c.objects);
    const SpanShape shape = ShapeOf(Class(i), SpanLength::kShort);
    ASSERT_GE(shape.pages, 1u);
    ASSERT_LE(shape.pages, full.pages);
    ASSERT_GE(shape.objects, 1u);
    const size_t bytes = shape.pages * kPageSize;
    ASSERT_LE(LastFirst(c) + shape.objects * c.size, bytes);
    const size_t tail = bytes - LastFirst(c) - shape.objects * c.size;
    EXPECT_LT(tail, c.size);
    EXPECT_LE(tail * 8, bytes);
  }
}

// Where a copy into a buffer with a small header is slow on some machines: see FirstIn.
TEST(SizeClasses, LargeObjectsKeepOffTheBordersOfPages) {
  size_t kept_off = 0;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const ClassInfo& c = InfoOf(Class(i));
    if (c.size <= (16 << 10) || IsPowerOfTwo(c.size)) {
      EXPECT_EQ(LastFirst(c), 0u) << c.size;
      EXPECT_EQ(FirstIn(c, 12345), 0u) << c.size;
      continue;
    }
    ++kept_off;
    for (size_t first = kShift; first <= LastFirst(c); first += kShift) {
      for (size_t object = 0; object < c.objects; ++object) {
        const size_t at = (first + object * c.size) % kNativePageSize;
        EXPECT_TRUE(at >= 64 && at <= kNativePageSize - 64) << c.size << " object " << object;
        EXPECT_EQ(at % 64, 0u) << c.size << " object " << object;
      }
    }
  }
  EXPECT_EQ(kept_off, 2u * 28);  // seven between any two powers of two from 16 KiB to 256 KiB
}

// As many objects lie in as many pages as if they began at the borders.
TEST(SizeClasses, KeepingOffBordersTakesNoPage) {
  for (size_t i = 1; i < kNumClasses; ++i) {
    const ClassInfo& c = InfoOf(Class(i));
    if (c.starts == 0) continue;
    const size_t nominal = c.size + (c.starts + 1) * kShift;
    EXPECT_EQ(nominal % 2048, 0u) << c.size;
    EXPECT_EQ(c.objects, c.pages * kPageSize / nominal) << c.size;
  }
}

// Copies between objects of two spans are slow where both begin at the same place in a native page
// and headers differ by a few bytes. With a span to themselves they do so once in 7 or 15 times.
TEST(SizeClasses, ObjectsOfSpansSideBySideBeginAtDifferentPlaces) {
  for (size_t i = 1; i < kNumClasses; ++i) {
    const ClassInfo& c = InfoOf(Class(i));
    if (c.starts == 0 || c.objects > 2) continue;
    EXPECT_GE(c.starts, 7u) << c.size;
    EXPECT_LE(LastFirst(c) * 32, c.size) << "costs too much";
    std::map<size_t, size_t> begin_at;
    constexpr size_t kSpans = 600;
    size_t alike = 0;
    for (size_t span = 0; span < kSpans; ++span) {
      const size_t page = 777 + span * c.pages;
      const size_t first = FirstIn(c, page);
      ASSERT_TRUE(first >= kShift && first <= LastFirst(c) && first % kShift == 0) << first;
      ++begin_at[first];
      alike += first == FirstIn(c, page + c.pages);
    }
    EXPECT_LE(alike, kSpans / c.starts * 2) << c.size;
    EXPECT_EQ(begin_at.size(), c.starts) << c.size;
    for (const auto& [first, spans] : begin_at) {
      EXPECT_LE(spans, kSpans / c.starts * 2) << c.size << " at " << first;
    }
  }
}

TEST(SizeClasses, BatchesAndSlotsFitTheirTiers) {
  for (size_t i = 1; i < kNumClasses; ++i) {
    const ClassInfo& c = InfoOf(Class(i));
    SCOPED_TRACE(c.size);
    EXPECT_GE(c.batch, kFewOnStack);
    EXPECT_LE(c.batch, kMaxBatch);
    EXPECT_TRUE(size_t{c.batch} * c.size <= 64 << 10 || c.batch == kFewOnStack);
    EXPECT_GE(c.cpu_slots, kFewOnStack);
    EXPECT_LT(c.cpu_slots, 0xffffu);  // which is "stopped"
    EXPECT_GE(c.carved, 2u);
    EXPECT_LE(c.carved, c.batch);
    EXPECT_LE(size_t{c.carved} * c.size, std::max(size_t{64} << 10, size_t{2} * c.size));
  }
}

TEST(SizeClasses, TheReciprocalIsExactForEveryOffset) {
  for (size_t i = 1; i < kNumClasses; ++i) {
    const ClassInfo& c = InfoOf(Class(i));
    size_t index = 0;
    size_t within = 0;
    for (size_t offset = 0; offset < c.pages * kPageSize; ++offset) {
      ASSERT_EQ(IndexOfOffset(c, offset), index) << c.size << " at " << offset;
      if (++within == c.size) {
        ++index;
        within = 0;
      }
    }
  }
}

size_t FirstPlace(const ClassInfo& c) { return c.starts == 0 ? 0 : kShift; }

TEST(SizeClasses, AlignedClassesServeTheirAlignment) {
  const auto aligned = [](const ClassInfo& info, size_t align) {
    for (size_t first = FirstPlace(info); first <= LastFirst(info); first += kShift) {
      for (size_t object = 0; object < info.objects; ++object) {
        if ((first + object * info.size) % align != 0) return false;
      }
    }
    return true;
  };
  for (size_t align = 1; align <= kPageSize; align *= 2) {
    for (size_t size = 0; size <= kMaxClassSize; size += size < 2048 ? 1 : 61) {
      SCOPED_TRACE(testing::Message() << "size " << size << " align " << align);
      const SizeClass least = ClassOfAligned(size, align);
      ASSERT_NE(least, SizeClass::kNone);
      ASSERT_TRUE(aligned(InfoOf(least), align));
      const SizeClass c = LeanClassOfAligned(size, align);
      if (c == SizeClass::kNone) {
        // A run of its own has less slack.
        ASSERT_GT(size, kLargestUnshifted);
        ASSERT_GT(align, kShift);
        for (size_t any = 1; any <= kNumSizes; ++any) {
          const ClassInfo& info = InfoOf(Class(any));
          ASSERT_FALSE(info.size >= size && (info.size - size) * 8 <= info.size &&
                       IsAligned(info, align))
              << info.size;
        }
        continue;
      }
      ASSERT_EQ(c, least);
      const ClassInfo& info = InfoOf(c);
      ASSERT_GE(info.size, size);
      if (size > kLargestUnshifted) {
        ASSERT_LE((info.size - size) * 8, info.size);
      }
      // The smallest such class.
      for (size_t smaller = Raw(c); smaller-- > 1;) {
        if (InfoOf(Class(smaller)).size < size) break;
        ASSERT_FALSE(IsAligned(InfoOf(Class(smaller)), align));
      }
    }
  }
}

TEST(SizeClasses, WholePagesAreNotShared) {
  for (size_t size = 0; size <= kMaxClassSize; size += 61) {
    const SizeClass c = ClassOfWholePages(size);
    const ClassInfo& info = InfoOf(c);
    SCOPED_TRACE(testing::Message() << size << " in " << info.size);
    ASSERT_GE(info.size, size);
    ASSERT_FALSE(IsLasting(c));
    ASSERT_TRUE(info.objects == 1 || info.starts == 0);  // BlockInDivided (regions/reaps.cpp)
    for (size_t first = FirstPlace(info); first <= LastFirst(info); first += kShift) {
      size_t page = SIZE_MAX;
      for (size_t object = 0; object < info.objects; ++object) {
        const size_t start = first + object * info.size;
        ASSERT_NE(start / kPageSize, page) << object;
        page = (start + info.size - 1) / kPageSize;
        ASSERT_EQ(page - start / kPageSize + 1, PagesCeil(info.size).raw()) << object;
      }
    }
    if (size > kPageSize) {
      ASSERT_LE((info.size - size) * 4, info.size + 4 * kPageSize);
    }
  }
}

TEST(SizeClasses, NothingServesTooLargeAlignedBlocks) {
  EXPECT_EQ(ClassOfAligned(kMaxClassSize + 1, 1), SizeClass::kNone);
  EXPECT_EQ(ClassOfAligned(~size_t{0}, 4096), SizeClass::kNone);
  EXPECT_EQ(Raw(ClassOfAligned(kMaxClassSize, kPageSize)), kNumSizes);
}

}  // namespace
}  // namespace strata
