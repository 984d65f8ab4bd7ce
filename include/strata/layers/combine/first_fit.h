// FirstFit: a finder for Coalesce that keeps one list of free blocks and takes the first that is
// large enough: simple, and the classic to compare TreeFit with (Knuth 1973, section 2.5).
#pragma once

#include "strata/layers/detail/boundary_tag.h"

namespace strata::layers {

class FirstFit {
 public:
  void Add(TaggedBlock* b) {
    b->next = first_;
    b->previous = nullptr;
    if (first_ != nullptr) first_->previous = b;
    first_ = b;
  }
  void Remove(TaggedBlock* b) {
    if (b->next != nullptr) b->next->previous = b->previous;
    if (b->previous != nullptr) {
      b->previous->next = b->next;
    } else {
      first_ = b->next;
    }
  }
  TaggedBlock* Take(size_t bytes) {
    for (TaggedBlock* b = first_; b != nullptr; b = b->next) {
      if (b->size() < bytes) continue;
      Remove(b);
      return b;
    }
    return nullptr;
  }
  void Clear() { first_ = nullptr; }

 private:
  TaggedBlock* first_ = nullptr;
};

}  // namespace strata::layers
