// An array of heaps, made in place from one argument or one each: heaps are neither copied nor
// moved. Used by the layers that hold several. (Not a plain array: gcc 12 makes no constant of
// one whose elements have destructors, and a preloaded heap must be a constant.)
#pragma once

#include <memory>

#include "strata/layers/heap.h"

namespace strata::layers {

template <class T, size_t kCount>
class HeapArray {
 public:
  template <class Arg>
  constexpr explicit HeapArray(Arg& arg) {
    for (Slot& s : slots_) std::construct_at(&s.it, arg);
  }
  // Each from an argument of its own: argument(0), argument(1), ...
  struct Each {};
  template <class F>
  constexpr HeapArray(Each, F argument) {
    for (size_t i = 0; i < kCount; ++i) std::construct_at(&slots_[i].it, argument(i));
  }
  ~HeapArray() {
    for (T& t : *this) t.~T();
  }
  HeapArray(const HeapArray&) = delete;
  HeapArray& operator=(const HeapArray&) = delete;

  T& operator[](size_t i) { return slots_[i].it; }
  T* begin() { return &slots_[0].it; }
  T* end() { return begin() + kCount; }
  const T* begin() const { return &slots_[0].it; }
  const T* end() const { return begin() + kCount; }

 private:
  union Slot {
    constexpr Slot() : none() {}
    ~Slot() {}
    char none;
    T it;
  };
  static_assert(sizeof(Slot) == sizeof(T));

  Slot slots_[kCount];
};

}  // namespace strata::layers
