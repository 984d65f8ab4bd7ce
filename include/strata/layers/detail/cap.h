// Cap: how many bytes a heap may hold, and who is asked when that is too little. The heap asks
// where nothing of it is under way, for the function may use the heap.
#pragma once

#include <algorithm>

#include "strata/layers/heap.h"

namespace strata::layers {

// Asked when `held` + `wanted` bytes would exceed the cap. Returns the new cap; one that is still
// too low, or 0, which leaves the cap as it is, refuses.
using CapFunction = size_t (*)(void* context, size_t held, size_t wanted, size_t cap);

enum class CapVerdict { kRefused, kTryOnce, kTryAgain };

struct CapQuestion {
  size_t held;
  size_t wanted;
  size_t cap;

  bool IsMoot() const { return cap == 0 || held + wanted <= cap; }
  // Of the answer, which is the cap now unless it is a refusal. It may be too low and there be room
  // all the same, if the function freed blocks: so it gets one try. Where it granted what was
  // wanted, but another thread was faster, there is a new question.
  CapVerdict Judge(size_t answer, size_t held_now) const {
    if (answer == 0) return CapVerdict::kRefused;
    const bool granted = std::min(held, held_now) + wanted <= answer;
    return granted ? CapVerdict::kTryAgain : CapVerdict::kTryOnce;
  }
};

class Cap {
 public:
  constexpr Cap() = default;
  constexpr Cap(size_t bytes, CapFunction reached, void* context)
      : bytes_(bytes), reached_(reached), context_(context) {}

  size_t bytes() const { return bytes_; }  // 0: none
  bool Allows(size_t bytes) const { return bytes_ == 0 || bytes <= bytes_; }
  bool HasFunction() const { return reached_ != nullptr; }

  // The function may change what is held.
  CapVerdict Ask(const size_t& held, size_t wanted) {
    const CapQuestion question{held, wanted, bytes_};
    const size_t answer = reached_(context_, held, wanted, bytes_);
    if (answer != 0) bytes_ = answer;
    return question.Judge(answer, held);
  }

  // What `attempt` returns; where that sets `refused`, the bytes that the cap kept it from taking,
  // the function is asked, with nothing under way, and may change all that is held.
  template <class F>
  void* Asking(const size_t& held, const size_t& refused, F attempt) {
    void* p = attempt();
    CapVerdict verdict = CapVerdict::kTryAgain;
    while (p == nullptr && refused != 0 && verdict == CapVerdict::kTryAgain && HasFunction()) {
      verdict = Ask(held, refused);
      if (verdict != CapVerdict::kRefused) p = attempt();
    }
    return p;
  }

 private:
  size_t bytes_ = 0;
  CapFunction reached_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace strata::layers
