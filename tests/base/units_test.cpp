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
static_assert(std::same_as<decltype(PageId(3) - PageId(1)), Length>);
static_assert(std::same_as<decltype(PageId(3) + Length(1)), PageId>);
static_assert(std::same_as<decltype(PageId(3) - Length(1)), PageId>);
static_assert(std::same_as<decltype(Length(6) / Length(2)), size_t>);
static_assert(std::same_as<decltype(Length(6) / 2), Length>);
static_assert(!Addable<PageId, PageId>);
static_assert(!Addable<Length, PageId>);
static_assert(!Addable<PageId, HugeLength>);
static_assert(!Addable<Length, HugeLength>);
static_assert(!Addable<Length, size_t>);
static_assert(!Subtractable<Length, PageId>);
static_assert(!Subtractable<PageId, HugePageId>);
static_assert(!Comparable<PageId, HugePageId>);
static_assert(!Comparable<Length, HugeLength>);
static_assert(!Comparable<Length, size_t>);
static_assert(!std::convertible_to<size_t, Length>);
static_assert(!std::convertible_to<size_t, PageId>);
static_assert(!std::convertible_to<Length, size_t>);
static_assert(sizeof(PageRange) == 16 && std::is_trivially_copyable_v<PageRange>);

static_assert(Length(7) % Length(4) == Length(3));
static_assert(Length(7) * 2 - Length(4) == Length(10));
static_assert(kPageSize == 8192 && kHugePageSize == 2 << 20 && kPagesPerHugePage == 256);
static_assert(kNativePerPage == 2 && kNativePerHugePage == 512);
static_assert(PagesCeil(0) == Length(0));
static_assert(PagesCeil(1) == Length(1));
static_assert(PagesCeil(8192) == Length(1));
static_assert(PagesCeil(8193) == Length(2));
static_assert(PagesCeil(~size_t{0}) == Length(size_t{1} << 51));  // no overflow at the top
static_assert(HugeCeil(Length(0)) == HugeLength(0));
static_assert(HugeCeil(Length(256)) == HugeLength(1));
static_assert(HugeCeil(Length(257)) == HugeLength(2));
static_assert(BytesOf(Length(3)) == 24576 && BytesOf(HugeLength(3)) == 6 << 20);
static_assert(HugePageOf(PageId(255)) == HugePageId(0) && HugePageOf(PageId(256)) == HugePageId(1));
static_assert(FirstPage(HugePageId(2)) == PageId(512));
static_assert(OffsetOf(FirstPage(HugePageId(5))) == OffsetOf(HugePageId(5)));
static_assert(PagesOf(HugeRange{HugePageId(1), HugeLength(2)}) ==
              PageRange{PageId(256), Length(512)});
static_assert(PageRange{PageId(4), Length(3)}.end() == PageId(7));
static_assert(PageRange{}.empty() && !PageRange{PageId(0), Length(1)}.empty());
static_assert(IsPowerOfTwo(1) && IsPowerOfTwo(4096) && !IsPowerOfTwo(0) && !IsPowerOfTwo(12));
static_assert(RoundUp(0, 16) == 0 && RoundUp(1, 16) == 16 && RoundUp(16, 16) == 16);
static_assert(RoundDown(31, 16) == 16 && RoundDown(32, 16) == 32);

TEST(Units, CompoundAssignmentAgreesWithTheOperators) {
  Length n(5);
  n += Length(2);
  EXPECT_EQ(n, Length(7));
  n -= Length(7);
  EXPECT_EQ(n, Length(0));
  PageId p(10);
  p += Length(3);
  EXPECT_EQ(p, PageId(13));
  EXPECT_LT(PageId(12), p);
}

#ifndef NDEBUG
TEST(UnitsDeathTest, SubtractionBelowZeroIsCaught) {
  EXPECT_DEATH((void)(Length(1) - Length(2)), "strata: check failed");
  EXPECT_DEATH((void)(PageId(1) - PageId(2)), "strata: check failed");
  EXPECT_DEATH((void)(PageId(1) - Length(2)), "strata: check failed");
}
#endif

}  // namespace
}  // namespace strata
