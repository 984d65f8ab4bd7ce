// An array of heaps, made in place from one argument: heaps are neither copied nor
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
