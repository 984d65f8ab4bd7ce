// StaticBuffer: a source. Hands out the bytes of a member array once, in order; the last block
// given back can be had again. For early start-up, embedded heaps and tests.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

template <size_t kBytes>
class StaticBuffer {
 public:
  static constexpr size_t alignment = kDefaultAlignment;
  static constexpr bool thread_safe = false;

  // Leaves the bytes alone: a static one costs nothing in the file, and one on the stack no time.
  constexpr StaticBuffer() : untouched_() {}

  void* allocate(size_t size) {
    if (size > kBytes) return nullptr;
    const size_t bytes = RoundUpBlock(size, alignment);
    if (bytes > kBytes - used_) return nullptr;
    void* p = buffer_ + used_;
    used_ += bytes;
    return p;
  }
  void deallocate(void* p, size_t size) {
    const size_t at = static_cast<size_t>(static_cast<unsigned char*>(p) - buffer_);
    if (at + RoundUpBlock(size, alignment) == used_) used_ = at;
  }
  bool owns(const void* p) const {
    const auto at = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(buffer_);
    return at < kBytes;
  }
  void clear() { used_ = 0; }
  size_t used() const { return used_; }

 private:
  static_assert(kBytes % alignment == 0, "StaticBuffer: a multiple of 16 bytes, please");
  // A union, because gcc 12 makes no constant of an array that is not set.
  union {
    char untouched_;
    alignas(alignment) unsigned char buffer_[kBytes];
  };
  size_t used_ = 0;
};

}  // namespace strata::layers
