// A fixed bitmap with the run searches that the filler and the regions need. The 256-bit form (one
// bit for each page of a hugepage) is on the path of every span taken or given back, so runs are
// found by shifting whole words, not by looking at bits. Sits at the bottom of hugepage.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace strata {

template <size_t kBits>
class PageBitmap {
  static_assert(kBits % 64 == 0);
  static constexpr size_t kWords = kBits / 64;

 public:
  static constexpr size_t kSize = kBits;

  bool Test(size_t i) const { return ((words_[i / 64] >> (i % 64)) & 1) != 0; }

  bool Any() const {
    uint64_t any = 0;
    for (uint64_t w : words_) any |= w;
    return any != 0;
  }

  size_t Count() const {
    size_t n = 0;
    for (uint64_t w : words_) n += static_cast<size_t>(std::popcount(w));
    return n;
  }

  void SetRange(size_t at, size_t n) {
    ForWords(at, n, [this](size_t w, uint64_t mask) { words_[w] |= mask; });
  }
  void ClearRange(size_t at, size_t n) {
    ForWords(at, n, [this](size_t w, uint64_t mask) { words_[w] &= ~mask; });
  }
  bool AnyIn(size_t at, size_t n) const {
    uint64_t any = 0;
    ForWords(at, n, [&](size_t w, uint64_t mask) { any |= words_[w] & mask; });
    return any != 0;
  }
  bool AllIn(size_t at, size_t n) const {
    uint64_t missing = 0;
    ForWords(at, n, [&](size_t w, uint64_t mask) { missing |= ~words_[w] & mask; });
    return missing == 0;
  }
  size_t CountIn(size_t at, size_t n) const {
    size_t count = 0;
    ForWords(at, n, [&](size_t w, uint64_t mask) {
      count += static_cast<size_t>(std::popcount(words_[w] & mask));
    });
    return count;
  }

  // First set (clear) bit at or after `from`; kBits when there is none.
  size_t NextSet(size_t from) const { return Next<0>(from); }
  size_t NextClear(size_t from) const { return Next<~uint64_t{0}>(from); }

  // Number of set bits directly before `at`.
  size_t RunBefore(size_t at) const {
    size_t i = at;
    while (i > 0) {
      const size_t w = (i - 1) / 64, used = i - w * 64;  // bits [0, used) of word w come before i
      const uint64_t aligned = words_[w] << (64 - used);
      const size_t ones = static_cast<size_t>(std::countl_one(aligned));
      if (ones < used) return at - i + ones;
      i = w * 64;
    }
    return at;
  }
  // Number of set bits from `at` on.
  size_t RunFrom(size_t at) const { return NextClear(at) - at; }

  size_t CountRuns() const { return Minus(Up1()).Count(); }

  // The length of the longest run of set bits: a few are looked at in turn, many all at once.
  size_t LongestRun() const {
    if (CountRuns() > kFewRuns) return LongestOfMany();
    size_t longest = 0;
    ForRuns([&](size_t /*at*/, size_t length) { longest = length > longest ? length : longest; });
    return longest;
  }

  // The places where a run of exactly n set bits begins (and is no longer in either direction).
  PageBitmap RunsOfExactly(size_t n) const {
    PageBitmap x = *this;
    size_t length = 1;
    for (; length * 2 <= n; length *= 2) x = x.And(x.Down(length));
    if (length < n) x = x.And(x.Down(n - length));
    return x.Minus(Down(n)).Minus(Up1());
  }

  PageBitmap And(const PageBitmap& o) const {
    return Zip(o, [](uint64_t a, uint64_t b) { return a & b; });
  }
  PageBitmap Minus(const PageBitmap& o) const {
    return Zip(o, [](uint64_t a, uint64_t b) { return a & ~b; });
  }
  PageBitmap Or(const PageBitmap& o) const {
    return Zip(o, [](uint64_t a, uint64_t b) { return a | b; });
  }

  bool operator==(const PageBitmap&) const = default;

  // Calls f(at, length) for each run of set bits, in order.
  template <class F>
  void ForRuns(F f) const {
    for (size_t at = NextSet(0); at < kBits;) {
      const size_t end = NextClear(at);
      f(at, end - at);
      at = end < kBits ? NextSet(end) : kBits;
    }
  }

 private:
  static constexpr size_t kFewRuns = 8;

  // Doubles the length while some run is that long, then halves the step: x always holds the places
  // where a run of at least `length` begins.
  size_t LongestOfMany() const {
    PageBitmap x = *this;
    size_t length = 1;
    for (PageBitmap y = x.And(x.Down(length)); y.Any(); y = x.And(x.Down(length))) {
      x = y;
      length *= 2;
      if (length >= kBits) return kBits;
    }
    for (size_t step = length / 2; step > 0; step /= 2) {
      const PageBitmap y = x.And(x.Down(step));
      if (!y.Any()) continue;
      x = y;
      length += step;
    }
    return length;
  }

  template <class F>
  static void ForWords(size_t at, size_t n, F f) {
    STRATA_DCHECK(at + n <= kBits);
    for (size_t end = at + n; at < end;) {
      const size_t w = at / 64, bit = at % 64;
      const size_t in_word = end - at < 64 - bit ? end - at : 64 - bit;
      f(w, (~uint64_t{0} >> (64 - in_word)) << bit);
      at += in_word;
    }
  }

  template <uint64_t kFlip>
  size_t Next(size_t from) const {
    if (from >= kBits) return kBits;
    size_t w = from / 64;
    uint64_t word = (words_[w] ^ kFlip) & (~uint64_t{0} << (from % 64));
    while (word == 0) {
      if (++w == kWords) return kBits;
      word = words_[w] ^ kFlip;
    }
    return w * 64 + static_cast<size_t>(std::countr_zero(word));
  }

  // Bit i of the result is bit i + k of this.
  PageBitmap Down(size_t k) const {
    PageBitmap r;
    const size_t words = k / 64, bits = k % 64;
    for (size_t i = 0; i + words < kWords; ++i) {
      r.words_[i] = words_[i + words] >> bits;
      if (bits != 0 && i + words + 1 < kWords) r.words_[i] |= words_[i + words + 1] << (64 - bits);
    }
    return r;
  }
  // Bit i of the result is bit i - 1 of this.
  PageBitmap Up1() const {
    PageBitmap r;
    for (size_t i = kWords; i-- > 0;)
      r.words_[i] = words_[i] << 1 | (i > 0 ? words_[i - 1] >> 63 : 0);
    return r;
  }

  template <class F>
  PageBitmap Zip(const PageBitmap& o, F f) const {
    PageBitmap r;
    for (size_t i = 0; i < kWords; ++i) r.words_[i] = f(words_[i], o.words_[i]);
    return r;
  }

  uint64_t words_[kWords] = {};
};

}  // namespace strata
