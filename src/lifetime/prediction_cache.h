// What is predicted for the places that allocate, by their keys: a small table that malloc reads
// without a lock (M. Maas et al., ASPLOS 2020, section 6). Here it is shared by all threads and
// holds decisions only: a place that is not in it is served as without predictions, so that most
// look-ups read one cache line and end. Sits in lifetime.
//
// One writer at a time, any readers. An entry is one word, so that it is never seen torn.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "lifetime/site.h"

namespace strata {

class Prediction {
 public:
  enum Kind : uint8_t {
    kNone,    // nothing is known of the place
    kLasts,   // its objects outlive others of their size
    kDeeper,  // so do those of some of its callers: look there
  };
  static constexpr size_t kBits = 12;
  // Where the next caller's return address lies: so many words above the frame that named the
  // place; 0: not known, or further up.
  static constexpr size_t kMostWordsUp = (size_t{1} << (kBits - 2)) - 1;

  constexpr Prediction(Kind kind, size_t words_up = 0)
      : raw_(static_cast<uint16_t>(kind | (words_up <= kMostWordsUp ? words_up << 2 : 0))) {}
  static constexpr Prediction FromRaw(uint64_t raw) {
    return {static_cast<Kind>(raw & 3), static_cast<size_t>(raw >> 2)};
  }
  constexpr uint64_t raw() const { return raw_; }
  constexpr Kind kind() const { return static_cast<Kind>(raw_ & 3); }
  constexpr size_t words_up() const { return raw_ >> 2; }

 private:
  uint16_t raw_;
};

class PredictionCache {
 public:
  static constexpr size_t kIndexBits = 13;
  static constexpr size_t kEntries = size_t{1} << kIndexBits;
  using Words = std::atomic<uint64_t>[kEntries];

  // `words` are zero, and outlive this.
  explicit constexpr PredictionCache(Words& words) : words_(words) {}

  STRATA_ALWAYS_INLINE Prediction Find(SiteKey key) const {
    const uint64_t differs = words_[IndexOf(key)].load(std::memory_order_relaxed) ^ TagOf(key);
    if (STRATA_LIKELY(differs >= uint64_t{1} << Prediction::kBits)) return Prediction::kNone;
    return Prediction::FromRaw(differs);
  }

  // The table as it will be, made beside it. False: another has the place's entry; it goes without.
  class Draft {
   public:
    // `words`: kEntries of them, zero.
    explicit Draft(uint64_t* words) : words_(words) {}
    bool Put(SiteKey key, Prediction prediction) {
      uint64_t& word = words_[IndexOf(key)];
      if (word != 0) return false;
      word = TagOf(key) | prediction.raw();
      return true;
    }

   private:
    friend class PredictionCache;
    uint64_t* words_;
  };

  // Returns how many entries changed.
  size_t Publish(const Draft& draft) {
    size_t changed = 0;
    for (size_t i = 0; i < kEntries; ++i) {
      if (words_[i].load(std::memory_order_relaxed) == draft.words_[i]) continue;
      words_[i].store(draft.words_[i], std::memory_order_relaxed);
      ++changed;
    }
    return changed;
  }

 private:
  // The key's top bits say which entry; all others are in the tag.
  static_assert(kIndexBits >= Prediction::kBits, "the index and the tag make up the key");

  static constexpr size_t IndexOf(SiteKey key) {
    return static_cast<size_t>(Raw(key) >> (64 - kIndexBits));
  }
  static constexpr uint64_t TagOf(SiteKey key) { return Raw(key) << Prediction::kBits; }

  Words& words_;
};

}  // namespace strata
