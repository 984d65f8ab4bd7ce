// A set of small numbers as a sorted list of 64-bit words: what the points-to solver's sets are.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace lint {

class Bits {
 public:
  bool empty() const { return words_.empty(); }
  std::size_t count() const {
    std::size_t n = 0;
    for (const Word& w : words_) n += static_cast<std::size_t>(std::popcount(w.bits));
    return n;
  }
  bool test(std::uint32_t n) const {
    const auto at = find(n / 64);
    return at != words_.end() && at->index == n / 64 && ((at->bits >> (n % 64)) & 1) != 0;
  }
  bool set(std::uint32_t n) {
    const std::uint64_t bit = 1ull << (n % 64);
    auto at = words_.begin() + (find(n / 64) - words_.begin());
    if (at == words_.end() || at->index != n / 64) {
      words_.insert(at, {n / 64, bit});
      return true;
    }
    const bool fresh = (at->bits & bit) == 0;
    at->bits |= bit;
    return fresh;
  }
  // Adds what the other has; whether that was anything new, and `fresh` gets it too.
  bool merge(const Bits& other, Bits* fresh = nullptr) {
    if (other.words_.empty()) return false;
    std::vector<Word> out, news;
    out.reserve(words_.size() + other.words_.size());
    bool grew = false;
    auto a = words_.begin();
    for (const Word& b : other.words_) {
      while (a != words_.end() && a->index < b.index) out.push_back(*a++);
      const std::uint64_t had = a != words_.end() && a->index == b.index ? a->bits : 0;
      if (had != 0) ++a;
      out.push_back({b.index, had | b.bits});
      if (const std::uint64_t more = b.bits & ~had; more != 0) {
        grew = true;
        if (fresh != nullptr) news.push_back({b.index, more});
      }
    }
    if (!grew) return false;
    out.insert(out.end(), a, words_.end());
    words_ = std::move(out);
    if (fresh != nullptr) {
      Bits more;
      more.words_ = std::move(news);
      fresh->merge(more);
    }
    return true;
  }
  bool intersects(const Bits& other) const {
    auto a = words_.begin();
    auto b = other.words_.begin();
    while (a != words_.end() && b != other.words_.end()) {
      if (a->index < b->index)
        ++a;
      else if (b->index < a->index)
        ++b;
      else if ((a->bits & b->bits) != 0)
        return true;
      else
        ++a, ++b;
    }
    return false;
  }
  template <typename Visit>
  void each(Visit visit) const {
    for (const Word& w : words_) {
      for (std::uint64_t rest = w.bits; rest != 0; rest &= rest - 1) {
        visit(w.index * 64 + static_cast<std::uint32_t>(std::countr_zero(rest)));
      }
    }
  }
  void clear() { words_.clear(); }
  void swap(Bits& other) { words_.swap(other.words_); }
  bool operator==(const Bits&) const = default;

 private:
  struct Word {
    std::uint32_t index;
    std::uint64_t bits;
    bool operator==(const Word&) const = default;
  };
  std::vector<Word>::const_iterator find(std::uint32_t index) const {
    return std::lower_bound(words_.begin(), words_.end(), index,
                            [](const Word& w, std::uint32_t i) { return w.index < i; });
  }
  std::vector<Word> words_;
};

}  // namespace lint
