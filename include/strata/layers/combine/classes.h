// Size classes for Bins and others: which class a size belongs to and how large that class's blocks
// are. PowersOfTwo is Kingsley's; Steps is exact; Geometric keeps internal slack below a quarter.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <class C>
concept SizeClasses = requires(size_t n) {
  { C::count } -> std::convertible_to<size_t>;
  { C::largest } -> std::convertible_to<size_t>;  // the size of the last class
  { C::of(n) } -> std::convertible_to<size_t>;    // n at most `largest`
  { C::size(n) } -> std::convertible_to<size_t>;
};

namespace internal {

// In place of what is none, so that the message about it stays alone.
struct NoClasses {
  static constexpr size_t count = 1, largest = 16;
  static constexpr size_t of(size_t) { return 0; }
  static constexpr size_t size(size_t) { return 16; }
};
template <class C>
using ClassesOr = std::conditional_t<SizeClasses<C>, C, NoClasses>;
template <class H>
struct ClassesOfHeap {
  using type = NoClasses;
};
template <class H>
  requires SizeClasses<typename H::Classes>
struct ClassesOfHeap<H> {
  using type = typename H::Classes;
};

// The largest class that a block of `size` bytes, at least the first class's, can serve.
template <SizeClasses Classes>
constexpr size_t ClassWithin(size_t size) {
  if constexpr (requires { Classes::within(size); }) {
    return Classes::within(size);
  } else {
    if (size >= Classes::largest) return Classes::count - 1;
    const size_t c = Classes::of(size);
    return Classes::size(c) > size ? c - 1 : c;
  }
}

}  // namespace internal

// kLeast, 2 kLeast, 4 kLeast, ... kMost.
template <size_t kLeast, size_t kMost>
struct PowersOfTwo {
  static_assert(IsPowerOfTwo(kLeast) && IsPowerOfTwo(kMost) && kLeast >= 2 && kLeast <= kMost,
                "PowersOfTwo: from one power of two up to another");
  static constexpr size_t largest = kMost;
  static constexpr size_t count = Log2(kMost) - Log2(kLeast) + 1;
  static constexpr size_t of(size_t size) {  // without a branch
    return Log2((size - (size != 0)) | (kLeast - 1)) + 1 - Log2(kLeast);
  }
  static constexpr size_t size(size_t c) { return kLeast << c; }
};

// kStep, 2 kStep, ... kMost.
template <size_t kStep, size_t kMost>
struct Steps {
  static_assert(kStep != 0 && kMost % kStep == 0 && kMost != 0,
                "Steps: the largest must be a multiple of the step");
  static constexpr size_t largest = kMost;
  static constexpr size_t count = kMost / kStep;
  static constexpr size_t of(size_t size) { return size == 0 ? 0 : (size - 1) / kStep; }
  static constexpr size_t size(size_t c) { return (c + 1) * kStep; }
};

// The sizes of blocks with a boundary tag: 24, 40, 56, ..., which fill whole units of 16 with it.
// Coalesce hands out no others.
template <size_t kMost>
struct TaggedSteps {
  static_assert(kMost >= 24 && kMost % 16 == 8, "TaggedSteps: 24, 40, 56 and so on");
  static constexpr size_t largest = kMost;
  static constexpr size_t count = (kMost - 24) / 16 + 1;
  static constexpr size_t of(size_t size) {  // without a branch
    const size_t least = size | size_t{size < 9} << 4;
    return (least + 7) / 16 - 1;
  }
  static constexpr size_t size(size_t c) { return 24 + 16 * c; }
  static constexpr size_t within(size_t size) {
    const size_t c = (size - 24) / 16;
    return c < count ? c : count - 1;
  }
};

// Four classes between a power of two and the next; below 64 bytes, one for each 16.
template <size_t kMost>
struct Geometric {
  static_assert(IsPowerOfTwo(kMost) && kMost >= 64, "Geometric: a power of two from 64 on");
  static constexpr size_t largest = kMost;
  static constexpr size_t of(size_t size) {
    if (size <= 64) return size == 0 ? 0 : (size - 1) / 16;
    const size_t octave = Log2(size - 1);
    if (octave < 6) __builtin_unreachable();  // else gcc warns of it in programs under UBSan
    return (octave - 6) * 4 + 4 + (((size - 1) >> (octave - 2)) & 3);
  }
  static constexpr size_t size(size_t c) {
    if (c < 4) return (c + 1) * 16;
    const size_t octave = (c - 4) / 4 + 6;
    return (size_t{1} << octave) + ((c - 4) % 4 + 1) * (size_t{1} << (octave - 2));
  }
  static constexpr size_t count = of(kMost) + 1;
};

}  // namespace strata::layers
