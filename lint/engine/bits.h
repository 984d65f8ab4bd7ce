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
    std::size_t missing = 0;
    std::vector<Word> news;
    bool grew = false;
    auto a = words_.begin();
    for (const Word& b : other.words_) {
      a = advance(a, words_.end(), b.index);
      const bool there = a != words_.end() && a->index == b.index;
      const std::uint64_t more = there ? b.bits & ~a->bits : b.bits;
      if (more == 0) continue;
      grew = true;
      if (fresh != nullptr) news.push_back({b.index, more});
      if (there)
        a->bits |= more;
      else
        ++missing;
    }
    if (missing != 0) insert(other, missing);
    if (!news.empty()) {
      Bits more;
      more.words_ = std::move(news);
      fresh->empty() ? fresh->swap(more) : void(fresh->merge(more));
    }
    return grew;
  }
  // Keeps what the other has, too.
  void keep(const Bits& other) {
    std::size_t kept = 0;
    auto b = other.words_.begin();
    for (const Word& a : words_) {
      while (b != other.words_.end() && b->index < a.index) ++b;
      if (b == other.words_.end()) break;
      if (b->index == a.index && (a.bits & b->bits) != 0)
        words_[kept++] = {a.index, a.bits & b->bits};
    }
    words_.resize(kept);
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
  std::size_t hash() const {
    std::size_t h = words_.size();
    for (const Word& w : words_) h = (h * 1000003 + w.index) * 1000003 + (w.bits ^ (w.bits >> 32));
    return h;
  }
  // What walking over it costs.
  std::size_t words() const { return words_.size(); }
  void swap(Bits& other) { words_.swap(other.words_); }
  bool operator==(const Bits&) const = default;

 private:
  struct Word {
    std::uint32_t index;
    std::uint64_t bits;
    bool operator==(const Word&) const = default;
  };
  using Place = std::vector<Word>::iterator;
  // To the first word from `at` on that does not lie before the index: near ones by steps, far ones
  // by halves.
  static Place advance(Place at, Place end, std::uint32_t index) {
    for (int steps = 0; steps < 8; ++steps, ++at) {
      if (at == end || at->index >= index) return at;
    }
    return std::lower_bound(at, end, index,
                            [](const Word& w, std::uint32_t i) { return w.index < i; });
  }
  // The words of the other that are not there, from the last on, so that each moves once.
  void insert(const Bits& other, std::size_t missing) {
    std::size_t from = words_.size();
    words_.resize(from + missing);
    std::size_t to = words_.size();
    for (std::size_t b = other.words_.size(); from != to; --b) {
      const Word& word = other.words_[b - 1];
      while (from != 0 && words_[from - 1].index > word.index) words_[--to] = words_[--from];
      if (from == 0 || words_[from - 1].index != word.index) words_[--to] = word;
    }
  }
  std::vector<Word>::const_iterator find(std::uint32_t index) const {
    return std::lower_bound(words_.begin(), words_.end(), index,
                            [](const Word& w, std::uint32_t i) { return w.index < i; });
  }
  std::vector<Word> words_;
};

}  // namespace lint
