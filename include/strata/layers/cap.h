// Cap: how many bytes a heap may hold, and who is asked when that is too little. The heap asks
// where nothing of it is under way, for the function may use the heap.
#pragma once

#include "strata/layers/heap.h"

namespace strata::layers {

// Asked when `held` + `wanted` bytes would exceed the cap. Returns the new cap; one that is still
// too low, or 0, which leaves the cap as it is, refuses.
using CapFunction = size_t (*)(void* context, size_t held, size_t wanted, size_t cap);

class Cap {
 public:
  constexpr Cap() = default;
  Cap(size_t bytes, CapFunction reached, void* context)
      : bytes_(bytes), reached_(reached), context_(context) {}

  size_t bytes() const { return bytes_; }  // 0: none
  bool Allows(size_t bytes) const { return bytes_ == 0 || bytes <= bytes_; }
  bool HasFunction() const { return reached_ != nullptr; }

  void Ask(size_t held, size_t wanted) {
    const size_t answer = reached_(context_, held, wanted, bytes_);
    if (answer != 0) bytes_ = answer;
  }

 private:
  size_t bytes_ = 0;
  CapFunction reached_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace strata::layers
