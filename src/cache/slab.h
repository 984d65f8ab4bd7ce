// The memory of the per-CPU caches: one slab a virtual CPU, with a header and an array of object
// pointers for each size class. Laid out so that push and pop are a handful of instructions that
// end in one store. Sits in cache; the idea is TCMalloc's (papers §2.8), the header is our own: its
// first word holds the fill and, above it, a count of pops, so that hits are counted exactly and
// for free.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "span/object_start.h"
#include "span/size_classes.h"

namespace strata {

inline constexpr size_t kSlabShift = 19;
inline constexpr size_t kSlabBytes = size_t{1} << kSlabShift;
// A header for every value of a page map entry. Those of sampled pages (see base/size_class.h) stay
// zero for ever: end = 0 means no room.
inline constexpr size_t kSlabHeaders = 256;
static_assert(kMaxClasses <= kSampledPage);

// One class on one vCPU. `word` is written by the vCPU's own threads inside restartable sequences,
// and by a drainer that has stopped the slab; begin and end under the vCPU's lock. A pop needs fill
// > begin, a push needs fill < end; a stopped slab has begin = 0xffff and end = 0, so that both
// fail.
struct SlabHeader {
  std::atomic<uint64_t> word;  // low 16 bits: fill, as a slot index; the rest: pops so far
  std::atomic<uint16_t> begin;
  std::atomic<uint16_t> end;
  // StartFactor of the class (span/object_start.h). Set when the vCPU's slab is made; 0 before,
  // when there is no room anyway.
  std::atomic<uint32_t> start_factor;

  size_t fill() const { return word.load(std::memory_order_relaxed) & 0xffff; }
  uint64_t pops() const { return word.load(std::memory_order_relaxed) >> 16; }
};
static_assert(sizeof(SlabHeader) == 1 << kClassBitsShift);
inline constexpr size_t kSlabBeginOffset = offsetof(SlabHeader, begin);
inline constexpr size_t kSlabEndOffset = offsetof(SlabHeader, end);
inline constexpr size_t kSlabFactorOffset = offsetof(SlabHeader, start_factor);

namespace slab_internal {
constexpr auto MakeFirstSlots() {
  std::array<uint16_t, kMaxClasses> first{};
  size_t at = kSlabHeaders * sizeof(SlabHeader) / sizeof(void*);
  for (size_t c = 1; c < kNumClasses; ++c) {
    first[c] = static_cast<uint16_t>(at);
    at += InfoOf(static_cast<SizeClass>(c)).cpu_slots;
  }
  return first;
}
inline constexpr auto kFirstSlots = MakeFirstSlots();
static_assert(kFirstSlots[kNumClasses - 1] + 4 < 0xffff);
static_assert((kFirstSlots[kNumClasses - 1] + size_t{4}) * sizeof(void*) <= kSlabBytes);
}  // namespace slab_internal

// Where a class's slots begin, in slots from the slab's start.
constexpr size_t FirstSlot(SizeClass c) { return slab_internal::kFirstSlots[Raw(c)]; }

class Slab {
 public:
  SlabHeader& header(SizeClass c) { return headers_[Raw(c)]; }
  void** slot(size_t index) { return reinterpret_cast<void**>(this) + index; }

  void Init() {
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      header(c).start_factor.store(StartFactor(c), std::memory_order_relaxed);
      Restart(c, FirstSlot(c));
    }
  }
  // Empty with room up to `end`.
  void Restart(SizeClass c, size_t end) {
    SlabHeader& h = header(c);
    h.word.store((h.word.load(std::memory_order_relaxed) & ~uint64_t{0xffff}) | FirstSlot(c),
                 std::memory_order_relaxed);
    Open(c, end - FirstSlot(c));
  }
  // A stopped class with the objects it has, and room for so many.
  void Open(SizeClass c, size_t room) {
    SlabHeader& h = header(c);
    const size_t first = FirstSlot(c);
    h.end.store(static_cast<uint16_t>(first + room), std::memory_order_relaxed);
    // release: the fill is in place before a pop can succeed.
    h.begin.store(static_cast<uint16_t>(first), std::memory_order_release);
  }
  void Stop(SizeClass c) {
    header(c).begin.store(0xffff, std::memory_order_relaxed);
    header(c).end.store(0, std::memory_order_relaxed);
  }

 private:
  SlabHeader headers_[kSlabHeaders];
};

}  // namespace strata
