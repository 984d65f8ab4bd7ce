// BestFit: where a coalescing heap keeps its free blocks, and how it picks one: exact bins for each
// 16 bytes below a limit, then some bins an octave, each sorted by size; a bit for each bin, so
// that the best fit is the first block large enough of the first usable bin (Lea's malloc 2.7).
// FirstFit keeps one list and takes the first that is large enough: simple, and the classic to
// compare with.
#pragma once

#include "strata/layers/boundary_tag.h"

namespace strata::layers {

// kExact: bins of one size; kPerOctave: bins from each power of two to the next; blocks from 2 to
// the power of kEnd on share the last one.
template <size_t kExact, size_t kPerOctave, size_t kEnd>
class BasicBestFit {
  static_assert(IsPowerOfTwo(kExact) && IsPowerOfTwo(kPerOctave));

 public:
  void Add(TaggedBlock* b) {
    const size_t bin = BinOf(b->size());
    const uint64_t bit = uint64_t{1} << (bin % 64);
    if ((nonempty_[bin / 64] & bit) == 0) bins_[bin] = nullptr;
    TaggedBlock** at = &bins_[bin];
    TaggedBlock* before = nullptr;
    while (*at != nullptr && (*at)->size() < b->size()) {
      before = *at;
      at = &before->next;
    }
    b->next = *at;
    b->previous = before;
    if (b->next != nullptr) b->next->previous = b;
    *at = b;
    nonempty_[bin / 64] |= bit;
  }

  void Remove(TaggedBlock* b) {
    if (b->next != nullptr) b->next->previous = b->previous;
    if (b->previous != nullptr) {
      b->previous->next = b->next;
      return;
    }
    const size_t bin = BinOf(b->size());
    bins_[bin] = b->next;
    if (b->next == nullptr) nonempty_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  }

  // The smallest block of at least `bytes`, no longer kept; null when there is none.
  TaggedBlock* Take(size_t bytes) {
    for (size_t bin = NextNonempty(BinOf(bytes)); bin < kBins; bin = NextNonempty(bin + 1)) {
      for (TaggedBlock* b = bins_[bin]; b != nullptr; b = b->next) {
        if (b->size() < bytes) continue;
        Remove(b);
        return b;
      }
    }
    return nullptr;
  }

  bool empty() const {
    uint64_t any = 0;
    for (uint64_t w : nonempty_) any |= w;
    return any == 0;
  }
  void Clear() {
    for (uint64_t& w : nonempty_) w = 0;
  }

 private:
  static constexpr size_t kFirstOctave = Log2(kExact * TaggedBlock::kUnit);
  static constexpr size_t kBins = kExact + kPerOctave * (kEnd - kFirstOctave) + 1;

  static size_t BinOf(size_t bytes) {
    if (bytes < kExact * TaggedBlock::kUnit) return bytes / TaggedBlock::kUnit;
    const size_t octave = Log2(bytes);
    if (octave >= kEnd) return kBins - 1;
    return kExact + (octave - kFirstOctave) * kPerOctave +
           ((bytes >> (octave - Log2(kPerOctave))) & (kPerOctave - 1));
  }
  size_t NextNonempty(size_t bin) const {
    if (bin >= kBins) return kBins;
    size_t w = bin / 64;
    uint64_t word = nonempty_[w] & (~uint64_t{0} << (bin % 64));
    while (word == 0) {
      if (++w == kWords) return kBins;
      word = nonempty_[w];
    }
    return w * 64 + static_cast<size_t>(std::countr_zero(word));
  }

  static constexpr size_t kWords = (kBins + 63) / 64;
  uint64_t nonempty_[kWords] = {};
  TaggedBlock* bins_[kBins] = {};  // only those with their bit set mean anything
};

using BestFit = BasicBestFit<64, 8, 48>;

class FirstFit {
 public:
  void Add(TaggedBlock* b) {
    b->next = first_;
    b->previous = nullptr;
    if (first_ != nullptr) first_->previous = b;
    first_ = b;
  }
  void Remove(TaggedBlock* b) {
    if (b->next != nullptr) b->next->previous = b->previous;
    if (b->previous != nullptr) {
      b->previous->next = b->next;
    } else {
      first_ = b->next;
    }
  }
  TaggedBlock* Take(size_t bytes) {
    for (TaggedBlock* b = first_; b != nullptr; b = b->next) {
      if (b->size() < bytes) continue;
      Remove(b);
      return b;
    }
    return nullptr;
  }
  void Clear() { first_ = nullptr; }

 private:
  TaggedBlock* first_ = nullptr;
};

}  // namespace strata::layers
