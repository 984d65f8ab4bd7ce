// The sorted keys of one B+tree node and what each stands for: a record in a leaf, a separator in
// an inner node. The bytes that all keys of the node share are kept once, and of each key the eight
// bytes behind them (prefix and poor man's normalized key: Graefe, "Modern B-Tree Techniques",
// 2011, sections 3.5 and 3.6), so that a search reads the node and at the end one key.
//
// Writers hold the node's lock. Readers may look on: everything is an atomic, no index that they
// compute from torn contents leaves the arrays, and entries that they meet were in the node at some
// time since they came, so these are not freed yet. What they find counts only if the version did
// not move (version_word.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "index/key_words.h"

namespace crest {

template <class Entry, size_t kCapacity>
class BTreeKeys {
 public:
  struct Place {
    size_t index;  // of the first key that is not less
    bool exact;
    Entry* entry;  // of an exact one
  };

  size_t size() const { return size_.load(std::memory_order_acquire); }
  bool full() const { return size() == kCapacity; }
  Entry* At(size_t index) const { return entries_[index].load(std::memory_order_acquire); }

  Place Find(std::string_view key) const {
    const size_t size = this->size();
    const size_t shared = shared_.load(std::memory_order_acquire);
    if (size == 0) return {0, false, nullptr};
    if (const int side = ComparePrefix(key, shared); side != 0) {
      return {side < 0 ? 0 : size, false, nullptr};
    }
    const uint64_t word = WordAt(key, shared);
    size_t low = LowerBound(0, size, [&](size_t i) { return Word(i) < word; });
    if (low == size || Word(low) != word) return {low, false, nullptr};
    const size_t high = LowerBound(low, size, [&](size_t i) { return Word(i) == word; });
    low = LowerBound(low, high, [&](size_t i) { return At(i)->key() < key; });
    if (low == high) return {low, false, nullptr};
    Entry* entry = At(low);
    if (entry->key() != key) return {low, false, nullptr};
    return {low, true, entry};
  }

  void Insert(size_t index, Entry* entry) {
    const size_t size = this->size();
    const std::string_view key = entry->key();
    const size_t shared = shared_.load(std::memory_order_relaxed);
    const bool shares = size != 0 && key.size() >= shared && ComparePrefix(key, shared) == 0;
    for (size_t i = size; i > index; --i) Copy(i, words_[i - 1], entries_[i - 1]);
    entries_[index].store(entry, std::memory_order_release);
    words_[index].store(WordAt(key, shared), std::memory_order_release);
    size_.store(static_cast<uint32_t>(size + 1), std::memory_order_release);
    if (!shares) Encode();
  }

  void Remove(size_t index) {
    const size_t size = this->size();
    for (size_t i = index; i + 1 < size; ++i) Copy(i, words_[i + 1], entries_[i + 1]);
    size_.store(size - 1, std::memory_order_release);
  }

  // Keeps the first `keep` keys and gives those from `from` on to `right`, which is empty and not
  // in the tree yet.
  void Split(size_t keep, size_t from, BTreeKeys& right) {
    const size_t size = this->size();
    for (size_t i = from; i < size; ++i) {
      right.entries_[i - from].store(At(i), std::memory_order_relaxed);
    }
    right.size_.store(static_cast<uint32_t>(size - from), std::memory_order_relaxed);
    right.Encode();
    size_.store(static_cast<uint32_t>(keep), std::memory_order_release);
    Encode();
  }

 private:
  static constexpr size_t kPrefixWords = 3;

  uint64_t Word(size_t index) const { return words_[index].load(std::memory_order_acquire); }

  // The first index of [low, high) for which `before` does not hold.
  template <class Before>
  static size_t LowerBound(size_t low, size_t high, Before&& before) {
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (before(middle)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  void Copy(size_t to, const std::atomic<uint64_t>& word, const std::atomic<Entry*>& entry) {
    words_[to].store(word.load(std::memory_order_relaxed), std::memory_order_release);
    entries_[to].store(entry.load(std::memory_order_relaxed), std::memory_order_release);
  }

  // The key against the bytes that all keys share, as far as it reaches: below 0 if it lies before
  // all keys, above if behind them. Zeros behind the key's end do no harm: a key that ends within
  // the prefix and agrees so far has the word 0 behind it, and the least key decides.
  int ComparePrefix(std::string_view key, size_t shared) const {
    for (size_t at = 0; at < shared; at += kWord) {
      if (at == kPrefixWords * kWord) return ComparePrefixRest(key, shared);
      const size_t bits = 8 * std::min(kWord, shared - at);
      const uint64_t mine = WordAt(key, at) >> (64 - bits);
      const uint64_t theirs = prefix_[at / kWord].load(std::memory_order_acquire) >> (64 - bits);
      if (mine != theirs) return mine < theirs ? -1 : 1;
    }
    return 0;
  }

  // What the node has no room for, it reads in a key. (Any will do; one that a writer puts here
  // meanwhile may be too short.)
  int ComparePrefixRest(std::string_view key, size_t shared) const {
    constexpr size_t kFrom = kPrefixWords * kWord;
    const std::string_view any = At(0)->key();
    if (any.size() < shared || key.size() < kFrom) return key < any ? -1 : 1;
    return key.substr(kFrom, shared - kFrom).compare(any.substr(kFrom, shared - kFrom));
  }

  // Finds anew what all keys share, and the words behind it.
  void Encode() {
    const size_t size = this->size();
    if (size == 0) return;
    const std::string_view first = At(0)->key();
    const size_t shared = CommonPrefix(first, At(size - 1)->key());
    for (size_t i = 0; i < kPrefixWords; ++i) {
      prefix_[i].store(WordAt(first, i * kWord), std::memory_order_release);
    }
    for (size_t i = 0; i < size; ++i) {
      words_[i].store(WordAt(At(i)->key(), shared), std::memory_order_release);
    }
    shared_.store(static_cast<uint32_t>(shared), std::memory_order_release);
  }

  std::atomic<uint32_t> size_{0};
  std::atomic<uint32_t> shared_{0};
  std::array<std::atomic<uint64_t>, kPrefixWords> prefix_{};
  std::array<std::atomic<uint64_t>, kCapacity> words_{};
  std::array<std::atomic<Entry*>, kCapacity> entries_{};
};

}  // namespace crest
