// The page map's four bytes tell the start of an object from any other address, for every class and
// every offset.
#include "span/object_start.h"

#include <gtest/gtest.h>

#include "span/size_classes.h"

namespace strata {
namespace {

// Starts of spans: as the heap's low 32 bits may be, around a carry too.
constexpr uintptr_t kBases[] = {0x7f12'3460'0000, 0x7f12'ffff'e000, 0x10'0000'0000};

size_t StepOf(size_t size) { return size < 16384 ? 1 : 8; }

class ObjectStart : public testing::TestWithParam<size_t> {};

TEST_P(ObjectStart, IsAMultipleOfTheSizeFromTheFirstObject) {
  const auto c = static_cast<SizeClass>(GetParam());
  const ClassInfo& info = InfoOf(c);
  size_t page = 0;
  for (const uintptr_t base : kBases) {
    const size_t first = FirstIn(info, page++);
    PageEntry entry{};
    for (size_t offset = 0; offset < info.pages * kPageSize; offset += StepOf(info.size)) {
      if (offset % kPageSize == 0) entry = EntryFor(c, base + first, base + offset);
      const bool starts = offset >= first && (offset - first) % info.size == 0;
      ASSERT_EQ(IsObjectStart(entry, c, base + offset), starts)
          << info.size << " at " << std::hex << base << " + " << offset;
    }
  }
}

// A sampled page's bit is a part of what is added.
TEST_P(ObjectStart, IsTheSameOnASampledPage) {
  const auto c = static_cast<SizeClass>(GetParam());
  const ClassInfo& info = InfoOf(c);
  for (size_t object = 0; object < info.objects; ++object) {
    const uintptr_t first = kBases[0] + LastFirst(info);
    const uintptr_t p = first + object * info.size;
    PageEntry entry = EntryFor(c, first, p & ~(kPageSize - 1));
    entry.class_bits |= uint16_t{kSampledPage} << kClassBitsShift;
    EXPECT_TRUE(IsObjectStart(entry, c, p));
    if (info.size > 8) {
      EXPECT_FALSE(IsObjectStart(entry, c, p + 8));
    }
  }
}

// As the caches make it for an object of which they know the class only (cache/rseq_ops.h).
TEST_P(ObjectStart, IsToldByTheEntryOfOneObject) {
  const auto c = static_cast<SizeClass>(GetParam());
  const uintptr_t p = kBases[0] + LastFirst(InfoOf(c)) + 3 * size_t{InfoOf(c).size};
  EXPECT_TRUE(IsObjectStart(EntryFor(c, p, p & ~(kPageSize - 1)), c, p));
}

INSTANTIATE_TEST_SUITE_P(Classes, ObjectStart, testing::Range(size_t{1}, kNumClasses));

TEST(PageEntry, KeepsItsClass) {
  for (size_t c = 1; c < kNumClasses; ++c) {
    const PageEntry entry = EntryFor(static_cast<SizeClass>(c), kBases[0], kBases[0]);
    EXPECT_EQ(Raw(ClassIn(entry.class_bits)), c);
  }
  EXPECT_EQ(ClassIn(PageEntry{}.class_bits), SizeClass::kNone);
}

}  // namespace
}  // namespace strata
