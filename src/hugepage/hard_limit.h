// The page heap's hard limit: how many pages may be backed at most, and which requests that
// refused. Sits in hugepage; the page heap's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"

namespace strata {

class HardLimit {
 public:
  // 0 bytes: none. Rounded down: one too small for a page allows none.
  explicit HardLimit(size_t bytes) { Set(bytes); }
  void Set(size_t bytes) { most_ = bytes == 0 ? kUnlimited : Pages(bytes >> kPageShift); }

  size_t bytes() const { return most_ == kUnlimited ? 0 : BytesOf(most_); }
  Pages most() const { return most_; }

  // A request, or a new attempt at it, forgets what stood in the way of the last one.
  void BeginAttempt() { hit_ = false; }
  // Whether so many pages may be backed; remembers a refusal.
  bool Allows(Pages backed) {
    if (STRATA_LIKELY(backed <= most_)) return true;
    hit_ = true;
    return false;
  }
  bool hit() const { return hit_; }  // by the current attempt

  // A request failed for good.
  void NoteFailure() { failures_ += hit_ ? 1 : 0; }
  size_t failures() const { return failures_; }

 private:
  static constexpr Pages kUnlimited{SIZE_MAX >> kPageShift};

  Pages most_;
  bool hit_ = false;
  size_t failures_ = 0;
};

}  // namespace strata
