// The word of a guide: a tagged pointer that owns an object which may move. Sits in hotness; the
// layout, and why it is so, stands in include/strata/hot.h, which programs compile in. After HADES
// (Banakar et al., "Tidying up the address space", DIMES 2025).
#pragma once

#include <atomic>
#include <cstdint>

#include "strata/hot.h"

namespace strata {

enum class HotHeap : uint8_t { kNew, kHot, kCold, kForeign };  // kForeign: not ours, never moves
inline constexpr int kHotHeaps = 3;

class GuideWord {
 public:
  static constexpr int kIdleShift = STRATA_HOT_ADDRESS_BITS, kIdleBits = 6;
  static constexpr int kHeapShift = kIdleShift + kIdleBits, kHeapBits = 2;
  static constexpr uint64_t kAddress = (uint64_t{1} << STRATA_HOT_ADDRESS_BITS) - 1;
  static constexpr uint32_t kFresh = (1u << kIdleBits) - 1;  // made in this window
  static constexpr uint32_t kMostIdle = kFresh - 1;
  static constexpr uint64_t kUsed = STRATA_HOT_USED, kLock = STRATA_HOT_LOCK;
  static constexpr uint64_t kHeld = uint64_t{1} << 58;
  static constexpr int kRoundShift = 59, kRoundBits = 2;

  constexpr GuideWord() = default;
  constexpr explicit GuideWord(uint64_t raw) : raw_(raw) {}
  // Counts as used, so that its first uses write nothing, yet the collector knows that it may not
  // be.
  static GuideWord Fresh(const void* object, HotHeap heap) {
    return GuideWord(reinterpret_cast<uintptr_t>(object) |
                     static_cast<uint64_t>(heap) << kHeapShift | uint64_t{kFresh} << kIdleShift |
                     kUsed);
  }
  static GuideWord Used(const void* object, HotHeap heap) {
    return GuideWord().At(object, heap).With(kUsed);
  }

  constexpr uint64_t raw() const { return raw_; }
  constexpr uintptr_t address() const { return raw_ & kAddress; }
  void* object() const { return reinterpret_cast<void*>(address()); }
  constexpr HotHeap heap() const { return static_cast<HotHeap>(raw_ >> kHeapShift & 3); }
  constexpr uint32_t idle() const { return raw_ >> kIdleShift & kFresh; }
  constexpr bool used() const { return (raw_ & kUsed) != 0; }
  constexpr bool locked() const { return (raw_ & kLock) != 0; }
  constexpr bool fresh() const { return idle() == kFresh; }
  constexpr bool held() const { return (raw_ & kHeld) != 0; }

  constexpr GuideWord With(uint64_t bits) const { return GuideWord(raw_ | bits); }
  constexpr GuideWord Without(uint64_t bits) const { return GuideWord(raw_ & ~bits); }
  GuideWord At(const void* object, HotHeap heap) const {
    const uint64_t kept = raw_ & ~(kAddress | uint64_t{3} << kHeapShift);
    return GuideWord(kept | reinterpret_cast<uintptr_t>(object) |
                     static_cast<uint64_t>(heap) << kHeapShift);
  }
  // The collector's last look was in the round of this number, modulo 4: an object that a round has
  // moved may come before it again.
  constexpr bool SeenIn(uint64_t round) const { return (raw_ >> kRoundShift & 3) == (round & 3); }
  // A window has passed: the use in it is forgotten, or there was one more without.
  constexpr GuideWord NextWindow(uint64_t round) const {
    const uint64_t next = used() || fresh() ? 0 : idle() == kMostIdle ? kMostIdle : idle() + 1;
    constexpr uint64_t changed =
        kUsed | uint64_t{kFresh} << kIdleShift | uint64_t{3} << kRoundShift;
    return GuideWord((raw_ & ~changed) | next << kIdleShift | (round & 3) << kRoundShift);
  }

  friend constexpr bool operator==(GuideWord, GuideWord) = default;

 private:
  uint64_t raw_ = 0;
};
static_assert(sizeof(GuideWord) == 8 && sizeof(strata_hot_guide) == 8);
static_assert(GuideWord::kIdleShift == 48 && GuideWord::kHeapShift == 54 &&
              GuideWord::kUsed == uint64_t{1} << 56 && GuideWord::kLock == uint64_t{1} << 57);
static_assert((GuideWord::kUsed & GuideWord::kLock & GuideWord::kHeld) == 0 &&
              GuideWord::kHeapShift + GuideWord::kHeapBits == 56);

// A guide in the program's memory. acquire: what another thread put into the object is seen.
class GuideRef {
 public:
  explicit GuideRef(strata_hot_guide* guide) : word_(guide->word) {}

  GuideWord Load(std::memory_order order = std::memory_order_acquire) const {
    return GuideWord(word_.load(order));
  }
  void Store(GuideWord w) { word_.store(w.raw(), std::memory_order_release); }
  // On failure `expected` is what is there. seq_cst: the protocol of moves (mover.h) counts on it.
  bool Exchange(GuideWord& expected, GuideWord desired) {
    uint64_t raw = expected.raw();
    const bool done = word_.compare_exchange_strong(raw, desired.raw(), std::memory_order_seq_cst,
                                                    std::memory_order_acquire);
    if (!done) expected = GuideWord(raw);
    return done;
  }

 private:
  std::atomic_ref<uint64_t> word_;
};

}  // namespace strata
