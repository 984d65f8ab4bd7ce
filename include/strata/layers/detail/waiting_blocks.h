// Blocks that were freed and wait to be joined with their neighbours, which take them for blocks in
// use meanwhile (Lea's fast bins, in one list for all sizes). What a Reap does not join at once.
#pragma once

#include <utility>

#include "strata/layers/detail/boundary_tag.h"

namespace strata::layers {

class WaitingBlocks {
 public:
  // Returns how many bytes wait now.
  size_t Add(TaggedBlock* b, size_t bytes) {
    b->SetWaiting();
    b->next = std::exchange(first_, b);
    return bytes_ += bytes;
  }
  // Calls join(block) for each, which is for its neighbours in use until join says that it is gone.
  template <class Join>
  void TakeAll(Join join) {
    bytes_ = 0;
    for (TaggedBlock* b = std::exchange(first_, nullptr); b != nullptr;) {
      TaggedBlock* next = b->next;
      join(b);
      b = next;
    }
  }
  size_t bytes() const { return bytes_; }
  bool empty() const { return first_ == nullptr; }
  void Clear() {
    first_ = nullptr;
    bytes_ = 0;
  }

 private:
  TaggedBlock* first_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace strata::layers
