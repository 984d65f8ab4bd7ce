// The algebra of units: what compiles, what does not, and how bytes round to pages.
#include "base/units.h"

#include <gtest/gtest.h>

#include <concepts>
#include <type_traits>

namespace strata {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Subtractable = requires(A a, B b) { a - b; };
template <class A, class B>
concept Comparable = requires(A a, B b) { a < b; };

// point - point = length, point + length = point, and nothing else.
static_assert(std::same_as<decltype(PageId(3) - PageId(1)), Pages>);
static_assert(std::same_as<decltype(PageId(3) + Pages(1)), PageId>);
static_assert(std::same_as<decltype(PageId(3) - Pages(1)), PageId>);
static_assert(std::same_as<decltype(Pages(6) / Pages(2)), size_t>);
static_assert(std::same_as<decltype(Pages(6) / 2), Pages>);
static_assert(!Addable<PageId, PageId>);
static_assert(!Addable<Pages, PageId>);
static_assert(!Addable<PageId, HugePages>);
static_assert(!Addable<Pages, HugePages>);
static_assert(!Addable<Pages, size_t>);
static_assert(!Subtractable<Pages, PageId>);
static_assert(!Subtractable<PageId, HugePageId>);
static_assert(!Comparable<PageId, HugePageId>);
static_assert(!Comparable<Pages, HugePages>);
static_assert(!Comparable<Pages, size_t>);
static_assert(!std::convertible_to<size_t, Pages>);
static_assert(!std::convertible_to<size_t, PageId>);
static_assert(!std::convertible_to<Pages, size_t>);
static_assert(sizeof(PageRange) == 16 && std::is_trivially_copyable_v<PageRange>);

static_assert(Pages(7) % Pages(4) == Pages(3));
static_assert(Pages(7) * 2 - Pages(4) == Pages(10));
static_assert(kPageSize == 8192 && kHugePageSize == 2 << 20 && kPagesPerHugePage == 256);
static_assert(kNativePerPage == 2 && kNativePerHugePage == 512);
static_assert(PagesCeil(0) == Pages(0));
static_assert(PagesCeil(1) == Pages(1));
static_assert(PagesCeil(8192) == Pages(1));
static_assert(PagesCeil(8193) == Pages(2));
static_assert(PagesCeil(~size_t{0}) == Pages(size_t{1} << 51));  // no overflow at the top
static_assert(HugeCeil(Pages(0)) == HugePages(0));
static_assert(HugeCeil(Pages(256)) == HugePages(1));
static_assert(HugeCeil(Pages(257)) == HugePages(2));
static_assert(BytesOf(Pages(3)) == 24576 && BytesOf(HugePages(3)) == 6 << 20);
static_assert(HugePageOf(PageId(255)) == HugePageId(0) && HugePageOf(PageId(256)) == HugePageId(1));
static_assert(FirstPage(HugePageId(2)) == PageId(512));
static_assert(OffsetOf(FirstPage(HugePageId(5))) == OffsetOf(HugePageId(5)));
static_assert(PagesOf(HugeRange{HugePageId(1), HugePages(2)}) ==
              PageRange{PageId(256), Pages(512)});
static_assert(PageRange{PageId(4), Pages(3)}.end() == PageId(7));
static_assert(PageRange{}.empty() && !PageRange{PageId(0), Pages(1)}.empty());
static_assert(IsPowerOfTwo(1) && IsPowerOfTwo(4096) && !IsPowerOfTwo(0) && !IsPowerOfTwo(12));
static_assert(RoundUp(0, 16) == 0 && RoundUp(1, 16) == 16 && RoundUp(16, 16) == 16);
static_assert(RoundDown(31, 16) == 16 && RoundDown(32, 16) == 32);

TEST(Units, CompoundAssignmentAgreesWithTheOperators) {
  Pages n(5);
  n += Pages(2);
  EXPECT_EQ(n, Pages(7));
  n -= Pages(7);
  EXPECT_EQ(n, Pages(0));
  PageId p(10);
  p += Pages(3);
  EXPECT_EQ(p, PageId(13));
  EXPECT_LT(PageId(12), p);
}

#ifndef NDEBUG
TEST(UnitsDeathTest, SubtractionBelowZeroIsCaught) {
  EXPECT_DEATH((void)(Pages(1) - Pages(2)), "strata: check failed");
  EXPECT_DEATH((void)(PageId(1) - PageId(2)), "strata: check failed");
  EXPECT_DEATH((void)(PageId(1) - Pages(2)), "strata: check failed");
}
#endif

}  // namespace
}  // namespace strata
