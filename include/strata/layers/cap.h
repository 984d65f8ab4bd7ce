// Cap: how many bytes a heap may hold, and who is asked when that is too little.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

// Asked when `held` + `wanted` bytes would exceed the cap. Returns the new cap; one that is still
// too low makes the request fail.
using CapFunction = size_t (*)(void* context, size_t held, size_t wanted, size_t cap);

class Cap {
 public:
  constexpr Cap() = default;
  Cap(size_t bytes, CapFunction reached, void* context)
      : bytes_(bytes), reached_(reached), context_(context) {}

  size_t bytes() const { return bytes_; }  // 0: none
  bool Allows(size_t bytes) const { return bytes_ == 0 || bytes <= bytes_; }

  // Whether `held` bytes may grow by `wanted`; asks if need be.
  bool Grants(size_t held, size_t wanted) {
    if (Allows(held + wanted)) return true;
    if (reached_ == nullptr) return false;
    bytes_ = reached_(context_, held, wanted, bytes_);
    return Allows(held + wanted);
  }

 private:
  size_t bytes_ = 0;
  CapFunction reached_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace strata::layers
