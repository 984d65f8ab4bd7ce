// A span: two blocks, 128 lines of 128 bytes, that hold small objects of one predicted lifetime.
// Its head, a few lines of the span itself, has for each 16 bytes whether an object begins there,
// ends there, or was freed; and a count of live objects, which holds kOpen more while a thread
// allocates from the span, so that nobody drops it to zero meanwhile. The thread that does drop it
// to zero gives the span back.
//
// A line is free if no live object has a part in it. The paper counts objects for each line; here
// lines are read off the bits when a span is opened again, so that a free costs two atomic
// operations, however many lines it clears, and a pointer that begins no live object is found.
// Maas et al., CACM 67(4), 2024, section 3.5; Blackburn, McKinley: Immix, PLDI 2008. Sits in
// lifetime.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/check.h"
#include "lifetime/huge_block_page.h"

namespace strata {

inline constexpr size_t kLineSize = 128;
inline constexpr size_t kLinesPerSpan = kSpanSize / kLineSize;
inline constexpr size_t kGranule = 16;

using Lines = PageBitmap<kLinesPerSpan>;

enum class RoomLeft : bool { kNone, kSome };

class LineSpan {
 public:
  static constexpr size_t kHeadLines = 4;
  // Heads would otherwise lie at the same offset of every 16 KiB and compete for the same sets of
  // every cache.
  static constexpr size_t kColours = 4;
  // The largest object of which two fit into every span. A larger one is better off with a block
  // of its own.
  static constexpr size_t kLargest = 7168;
  static_assert((kColours * kHeadLines * kLineSize + 2 * kLargest) <= kSpanSize);

  enum class Freed : uint8_t { kNotAnObject, kTwice, kFine, kLast };

  static uintptr_t BaseOf(uintptr_t p) { return p & ~uintptr_t{kSpanSize - 1}; }
  static LineSpan* HeadOf(uintptr_t p) {
    const uintptr_t base = BaseOf(p);
    return reinterpret_cast<LineSpan*>(base + FirstHeadLine(base) * kLineSize);
  }

  // Makes one of blocks that hold nothing; open.
  static LineSpan* Begin(uintptr_t base) {
    static_assert(sizeof(LineSpan) <= kHeadLines * kLineSize);
    auto* s = ::new (static_cast<void*>(HeadOf(base))) LineSpan;
    s->live_.store(kOpen, std::memory_order_relaxed);
    return s;
  }
  uintptr_t base() const { return BaseOf(reinterpret_cast<uintptr_t>(this)); }

  // --- For the thread that has it open.

  // Opens a closed one; false: its last object is being freed, by somebody who will give it back.
  // The caller holds the lock of its page, and then, without it, calls ForgetFreed.
  bool Claim() {
    uint32_t live = live_.load(std::memory_order_relaxed);
    do {
      STRATA_DCHECK(!IsOpen(live));
      if (live == 0) return false;
    } while (!live_.compare_exchange_weak(live, live + kOpen, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
  }

  // Others may free meanwhile: their objects stay until the next time. An end that a live object
  // needs is never missing for who reads its size.
  void ForgetFreed() {
    for (size_t w = 0; w < kGranules / 64; ++w) {
      const uint64_t freed = freed_[w].load(std::memory_order_acquire);  // pairs with Free
      if (freed == 0) continue;
      const uint64_t starts = starts_[w].load(std::memory_order_relaxed);
      for (uint64_t word = freed; word != 0; word &= word - 1) {
        const size_t end = EndFrom(w * 64 + static_cast<size_t>(std::countr_zero(word)));
        Word& ends = ends_[end / 64];
        ends.store(ends.load(std::memory_order_relaxed) & ~(uint64_t{1} << end % 64),
                   std::memory_order_relaxed);
      }
      starts_[w].store(starts & ~freed, std::memory_order_relaxed);
      freed_[w].fetch_and(~freed, std::memory_order_relaxed);
    }
  }

  // As it was opened; nothing has been added since.
  Lines FreeLines() const {
    Lines free;
    free.SetRange(0, kLinesPerSpan);
    free.ClearRange(FirstHeadLine(base()), kHeadLines);
    ForObjects([&](size_t first, size_t last) {
      const size_t from = first / kInLine;
      free.ClearRange(from, last / kInLine + 1 - from);
    });
    return free;
  }

  // An object of `bytes`, a multiple of kGranule, now begins at p.
  void Note(uintptr_t p, size_t bytes) {
    const size_t first = GranuleOf(p), last = first + bytes / kGranule - 1;
    SetOwn(starts_, first);
    SetOwn(ends_, last);
  }

  // Of `made` objects since it was opened. True: nothing lives in it, and the caller gives it back.
  bool Close(uint32_t made, RoomLeft left) {
    room_left_ = left == RoomLeft::kSome;
    objects_ = 0;
    for (const auto& word : starts_) {
      objects_ += static_cast<uint32_t>(std::popcount(word.load(std::memory_order_relaxed)));
    }
    // acq_rel: whoever reopens it or drops it sees the bits; and here, what others did before they
    // freed.
    return live_.fetch_add(made - kOpen, std::memory_order_acq_rel) + made == kOpen;
  }

  // --- For every thread.

  // kLast: nothing lives in it any more, and the caller gives it back.
  Freed Free(uintptr_t p) {
    const size_t g = GranuleOf(p);
    const uint64_t bit = uint64_t{1} << g % 64;
    if (p % kGranule != 0 || (starts_[g / 64].load(std::memory_order_relaxed) & bit) == 0)
      return Freed::kNotAnObject;
    // acq_rel: whoever reuses the memory comes after what the program did with it.
    if ((freed_[g / 64].fetch_or(bit, std::memory_order_acq_rel) & bit) != 0) return Freed::kTwice;
    return live_.fetch_sub(1, std::memory_order_acq_rel) == 1 ? Freed::kLast : Freed::kFine;
  }

  // Of the live object that begins at p; 0: none does.
  size_t SizeOf(uintptr_t p) const {
    const size_t g = GranuleOf(p);
    const uint64_t bit = uint64_t{1} << g % 64;
    const uint64_t live = starts_[g / 64].load(std::memory_order_relaxed) &
                          ~freed_[g / 64].load(std::memory_order_relaxed);
    return p % kGranule != 0 || (live & bit) == 0 ? 0 : (EndFrom(g) + 1 - g) * kGranule;
  }

  // Closed, with objects, and with room that it did not have or did not use. For who holds the lock
  // of its page, without which nobody opens it.
  bool PartlyFree() const {
    const uint32_t live = live_.load(std::memory_order_acquire);  // pairs with Close
    return live != 0 && !IsOpen(live) && (room_left_ || live < objects_);
  }
  // Objects of a closed one. While it is open those that were made since are not in it, and those
  // of them that were freed are out of it, so it may be somewhat below kOpen.
  uint32_t live() const { return live_.load(std::memory_order_relaxed); }
  static constexpr uint32_t kOpen = 1 << 16;

 private:
  static constexpr size_t kGranules = kSpanSize / kGranule;
  static constexpr size_t kInLine = kLineSize / kGranule;
  static_assert(kGranules < kOpen / 2);
  static bool IsOpen(uint32_t live) { return live > kOpen / 2; }
  using Word = std::atomic<uint64_t>;

  static size_t FirstHeadLine(uintptr_t base) { return base / kSpanSize % kColours * kHeadLines; }
  static size_t GranuleOf(uintptr_t p) { return (p & (kSpanSize - 1)) / kGranule; }

  // Only who has the span open writes these words, so no atomic operation is needed.
  static void SetOwn(Word* words, size_t g) {
    Word& word = words[g / 64];
    word.store(word.load(std::memory_order_relaxed) | uint64_t{1} << g % 64,
               std::memory_order_relaxed);
  }

  size_t EndFrom(size_t g) const {
    size_t w = g / 64;
    uint64_t word = ends_[w].load(std::memory_order_relaxed) & ~uint64_t{0} << g % 64;
    while (word == 0) word = ends_[++w].load(std::memory_order_relaxed);
    return w * 64 + static_cast<size_t>(std::countr_zero(word));
  }

  template <class F>
  void ForObjects(F f) const {
    for (size_t w = 0; w < kGranules / 64; ++w) {
      for (uint64_t word = starts_[w].load(std::memory_order_relaxed); word != 0;
           word &= word - 1) {
        const size_t first = w * 64 + static_cast<size_t>(std::countr_zero(word));
        f(first, EndFrom(first));
      }
    }
  }

  Word starts_[kGranules / 64] = {};
  Word ends_[kGranules / 64] = {};
  Word freed_[kGranules / 64] = {};
  std::atomic<uint32_t> live_{0};
  uint32_t objects_ = 0;  // when it was closed: the live ones, and those freed since it was opened
  bool room_left_ = false;
};

}  // namespace strata
