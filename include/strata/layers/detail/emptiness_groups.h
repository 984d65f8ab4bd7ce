// The superblocks of one heap and class, on lists by how full they are: a list for each sixteenth,
// and one for those that are quite full. So the fullest with a free object is found at once, to
// allocate from, and the emptiest, to part with. A superblock changes lists only when it crosses a
// sixteenth, and goes to the front: the one freed into last is used first. Guarded by the heap's
// lock.
#pragma once

#include <bit>

#include "strata/layers/heap.h"

namespace strata::layers {

// After the fullness groups of Hoard (ASPLOS 2000, section 3). There each free moves the
// superblock to the front of its list; here only one that changes lists, which spares writing into
// two other superblocks' records at every free.
template <class S>
class EmptinessGroups {
 public:
  static constexpr uint32_t kParts = S::kParts;

  void Add(S& s) {
    const uint32_t group = s.part();
    const uint64_t size = s.capacity();
    s.group_ = static_cast<uint8_t>(group);
    // used * kParts / capacity is `group` from low up to high.
    s.low_ = static_cast<uint16_t>((group * size + kParts - 1) / kParts);
    s.high_ = static_cast<uint16_t>(((group + 1) * size + kParts - 1) / kParts);
    s.prev_ = nullptr;
    s.next_ = first_[group];
    if (s.next_ != nullptr) s.next_->prev_ = &s;
    first_[group] = &s;
    present_ |= 1u << group;
  }

  void Remove(S& s) {
    (s.prev_ == nullptr ? first_[s.group_] : s.prev_->next_) = s.next_;
    if (s.next_ != nullptr) s.next_->prev_ = s.prev_;
    if (first_[s.group_] == nullptr) present_ &= ~(1u << s.group_);
  }

  // After an object of s was handed out or came back.
  void Moved(S& s) {
    if (s.used() >= s.low_ && s.used() < s.high_) [[likely]]
      return;
    Remove(s);
    Add(s);
  }

  // The first of the fullest list whose superblocks have a free object, or null.
  S* Fullest() const {
    const uint32_t with_room = present_ & ((1u << kParts) - 1);
    return with_room == 0 ? nullptr : first_[Log2(with_room)];
  }

  // The first of the emptiest list; null if all are full or there are none.
  S* Emptiest() const {
    const uint32_t with_room = present_ & ((1u << kParts) - 1);
    return with_room == 0 ? nullptr : first_[std::countr_zero(with_room)];
  }

  // One of all; null if there are none.
  S* Any() const { return present_ == 0 ? nullptr : first_[std::countr_zero(present_)]; }

  template <class F>
  void Visit(F f) const {
    for (const S* first : first_) {
      for (const S* s = first; s != nullptr; s = s->next_) f(*s);
    }
  }

 private:
  S* first_[kParts + 1] = {};
  uint32_t present_ = 0;  // bit g: list g is not empty
};

}  // namespace strata::layers
