// Units of the page heap: native pages, Strata pages (8 KiB) and hugepages (2 MiB), as distinct
// types. A point minus a point is a length, a point plus a length is a point, and nothing else
// compiles. Page and hugepage ids are indices from the start of the heap's address window, so that
// the same code runs over a fake window in tests. Sits at the bottom: everything above speaks in
// these types.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace strata {

inline constexpr size_t kPageShift = 13;
inline constexpr size_t kPageSize = size_t{1} << kPageShift;
inline constexpr size_t kNativePageShift = 12;
inline constexpr size_t kNativePageSize = size_t{1} << kNativePageShift;
inline constexpr size_t kHugePageShift = 21;
inline constexpr size_t kHugePageSize = size_t{1} << kHugePageShift;
inline constexpr size_t kPagesPerHugePage = kHugePageSize / kPageSize;
inline constexpr size_t kNativePerPage = kPageSize / kNativePageSize;
inline constexpr size_t kNativePerHugePage = kHugePageSize / kNativePageSize;

// A number of things of one kind. Subtraction below zero is a bug and is checked.
template <class Tag>
class Count {
 public:
  constexpr Count() = default;
  constexpr explicit Count(size_t n) : n_(n) {}

  constexpr size_t raw() const { return n_; }
  constexpr auto operator<=>(const Count&) const = default;

  constexpr Count operator+(Count o) const { return Count(n_ + o.n_); }
  constexpr Count operator-(Count o) const {
    STRATA_DCHECK(n_ >= o.n_);
    return Count(n_ - o.n_);
  }
  constexpr Count operator*(size_t k) const { return Count(n_ * k); }
  constexpr Count operator/(size_t k) const { return Count(n_ / k); }
  constexpr size_t operator/(Count o) const { return n_ / o.n_; }
  constexpr Count operator%(Count o) const { return Count(n_ % o.n_); }
  constexpr Count& operator+=(Count o) { return *this = *this + o; }
  constexpr Count& operator-=(Count o) { return *this = *this - o; }

 private:
  size_t n_ = 0;
};

// A position among things of one kind, counted from the start of the heap window.
template <class Tag>
class Index {
 public:
  constexpr Index() = default;
  constexpr explicit Index(size_t i) : i_(i) {}

  constexpr size_t raw() const { return i_; }
  constexpr auto operator<=>(const Index&) const = default;

  constexpr Index operator+(Count<Tag> n) const { return Index(i_ + n.raw()); }
  constexpr Index operator-(Count<Tag> n) const {
    STRATA_DCHECK(i_ >= n.raw());
    return Index(i_ - n.raw());
  }
  constexpr Count<Tag> operator-(Index o) const {
    STRATA_DCHECK(i_ >= o.i_);
    return Count<Tag>(i_ - o.i_);
  }
  constexpr Index& operator+=(Count<Tag> n) { return *this = *this + n; }

 private:
  size_t i_ = 0;
};

using Pages = Count<struct PageTag>;  // in pages of 8 KiB
using PageId = Index<struct PageTag>;
using HugePages = Count<struct HugePageTag>;  // in hugepages of 2 MiB
using HugePageId = Index<struct HugePageTag>;

inline constexpr Pages kPagesInHugePage{kPagesPerHugePage};

constexpr Pages PagesCeil(size_t bytes) {
  return Pages((bytes >> kPageShift) + ((bytes & (kPageSize - 1)) != 0));
}
constexpr size_t BytesOf(Pages n) { return n.raw() << kPageShift; }
constexpr size_t BytesOf(HugePages n) { return n.raw() << kHugePageShift; }
constexpr Pages PagesOf(HugePages n) { return Pages(n.raw() * kPagesPerHugePage); }
constexpr HugePages HugeCeil(Pages n) {
  return HugePages((n.raw() + kPagesPerHugePage - 1) / kPagesPerHugePage);
}
constexpr HugePageId HugePageOf(PageId p) { return HugePageId(p.raw() / kPagesPerHugePage); }
constexpr PageId FirstPage(HugePageId h) { return PageId(h.raw() * kPagesPerHugePage); }
constexpr size_t OffsetOf(PageId p) { return p.raw() << kPageShift; }  // bytes from window start
constexpr size_t OffsetOf(HugePageId h) {
  return h.raw() << kHugePageShift;
}  // bytes from window start

// A run of pages.
struct PageRange {
  PageId first;
  Pages length;
  constexpr bool empty() const { return length == Pages(0); }
  constexpr PageId end() const { return first + length; }
  constexpr bool operator==(const PageRange&) const = default;
};

// A run of hugepages.
struct HugeRange {
  HugePageId first;
  HugePages length;
  constexpr bool empty() const { return length == HugePages(0); }
  constexpr HugePageId end() const { return first + length; }
  constexpr bool operator==(const HugeRange&) const = default;
};

constexpr PageRange PagesOf(HugeRange r) { return {FirstPage(r.first), PagesOf(r.length)}; }

constexpr bool IsPowerOfTwo(size_t x) { return x != 0 && (x & (x - 1)) == 0; }
constexpr size_t RoundUp(size_t x, size_t align) { return (x + align - 1) & ~(align - 1); }
constexpr size_t RoundDown(size_t x, size_t align) { return x & ~(align - 1); }

}  // namespace strata
