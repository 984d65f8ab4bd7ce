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
    Add(first_, b);
    return bytes_ += bytes;
  }
  // As a list for ForEachRun.
  TaggedBlock* TakeAll() {
    bytes_ = 0;
    return std::exchange(first_, nullptr);
  }
  // The same for a list of somebody else's, of which `first` is the newest.
  static void Add(TaggedBlock*& first, TaggedBlock* b) {
    b->SetWaiting();
    b->next = std::exchange(first, b);
  }
  // Blocks are often freed in the order in which they lie, or against it. Calls free(block, bytes)
  // for each run of those, which waits no more. Returns how many bytes there were.
  template <class F>
  static size_t ForEachRun(TaggedBlock* list, F free) {
    TaggedBlock* run = nullptr;
    size_t bytes = 0, all = 0;
    for (TaggedBlock *b = list, *next; b != nullptr; b = next) {
      next = b->next;
      const size_t more = b->size();
      const bool in_front = b->At(static_cast<ptrdiff_t>(more)) == run;
      if (!in_front && (run == nullptr || run->At(static_cast<ptrdiff_t>(bytes)) != b)) {
        if (run != nullptr) free(run, bytes);
        run = b;
        bytes = 0;
      } else if (in_front) {
        run = b;
      }
      b->SetGone();  // not before what lies beyond a scrap was freed
      bytes += more;
      all += more;
    }
    if (run != nullptr) free(run, bytes);
    return all;
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
