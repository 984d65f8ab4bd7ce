// The memory of the per-CPU caches: one slab a virtual CPU, with a header for each size class that
// says where the class's array of object pointers lies. Laid out so that push and pop are a handful
// of instructions that end in one store. Sits in cache. The idea is TCMalloc's (Hunter et al., OSDI
// 2021, §3, and its per-CPU design notes); the header is our own: its first word holds the fill
// and, above it, a count of pops, so that hits are counted exactly and for free, and the arrays are
// apart, so that a class that holds little takes little and one of tiny objects may hold much.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "span/object_start.h"
#include "span/size_classes.h"

namespace strata {

inline constexpr size_t kSlabShift = 16;
inline constexpr size_t kSlabBytes = size_t{1} << kSlabShift;
// A header for every value of a page map entry. Those of sampled pages (see base/size_class.h) stay
// zero for ever: end = 0 means no room.
inline constexpr size_t kSlabHeaders = 2 * size_t{kSampledPage};
static_assert(kMaxClasses <= kSampledPage);

// One class on one vCPU. `word` is written by the vCPU's own threads inside restartable sequences,
// and by a drainer that has stopped the slab; the rest under the vCPU's lock. A pop needs fill >
// begin, a push needs fill < end; a stopped slab has begin = 0xffff and end = 0, so that both fail.
// A sequence reads `array` after these two: who sees the bounds of a new array sees the array.
// All zero is a class without room.
struct SlabHeader {
  std::atomic<uint64_t> word;  // low 16 bits: fill, in objects; the rest: pops so far
  std::atomic<uint16_t> begin;
  std::atomic<uint16_t> end;
  std::atomic<uint32_t> start_factor;  // StartFactor of the class (span/object_start.h)
  // The slots; another below the first is unused, so that what lies in the slab fills whole lines.
  std::atomic<void**> array;
  uint16_t capacity;  // slots in the array
  uint16_t unused[3];

  size_t fill() const { return word.load(std::memory_order_relaxed) & 0xffff; }
  uint64_t pops() const { return word.load(std::memory_order_relaxed) >> 16; }
  size_t room() const { return end.load(std::memory_order_relaxed); }  // 0 when stopped
  void** slots() const { return array.load(std::memory_order_relaxed); }
};
static_assert(sizeof(SlabHeader) == 1 << kClassBitsShift);
inline constexpr size_t kSlabBeginOffset = offsetof(SlabHeader, begin);
inline constexpr size_t kSlabEndOffset = offsetof(SlabHeader, end);
inline constexpr size_t kSlabFactorOffset = offsetof(SlabHeader, start_factor);
inline constexpr size_t kSlabArrayOffset = offsetof(SlabHeader, array);

class Slab {
 public:
  // What a class has room for to begin with, in the slab itself. With the slot below the first it
  // fills two cache lines.
  static constexpr size_t kFirstSlots = 15;

  SlabHeader& header(SizeClass c) { return headers_[Raw(c)]; }

  // Most programs use few classes, so each is made when it first gets room. Until then its header
  // is zero and not written to, and the first slots are handed out side by side: pages that nobody
  // needs take no memory.
  bool IsMade(SizeClass c) { return header(c).capacity != 0; }
  void Make(SizeClass c) {
    SlabHeader& h = header(c);
    h.start_factor.store(StartFactor(c), std::memory_order_relaxed);
    h.array.store(first_[made_++] + 1, std::memory_order_relaxed);
    h.capacity = kFirstSlots;
  }
  // A stopped class, with the objects it has and room for so many.
  void Open(SizeClass c, size_t room) {
    SlabHeader& h = header(c);
    // release, both: the fill and the array are in place before a push or a pop can succeed.
    h.end.store(static_cast<uint16_t>(room), std::memory_order_release);
    h.begin.store(0, std::memory_order_release);
  }
  void Stop(SizeClass c) {
    header(c).begin.store(0xffff, std::memory_order_relaxed);
    header(c).end.store(0, std::memory_order_relaxed);
  }
  bool IsStopped(SizeClass c) { return header(c).begin.load(std::memory_order_relaxed) != 0; }

 private:
  SlabHeader headers_[kSlabHeaders];
  alignas(64) size_t made_;  // classes
  alignas(64) void* first_[kNumClasses][kFirstSlots + 1];
};
static_assert(sizeof(Slab) <= kSlabBytes);

// Who stops a class or fills another's must leave the pops of the word as they are.
inline void SetFill(SlabHeader& h, size_t fill) {
  h.word.store((h.word.load(std::memory_order_relaxed) & ~uint64_t{0xffff}) | fill,
               std::memory_order_relaxed);
}

}  // namespace strata
