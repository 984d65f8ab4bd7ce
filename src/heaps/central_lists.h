// The central free lists of all classes, as the one tier below the transfer cache. Sits in heaps.
// Thread-safe: one lock a class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "span/central_free_list.h"
#include "span/size_classes.h"

namespace strata {

template <class Source>
class CentralLists {
 public:
  using List = CentralFreeList<Source>;

  CentralLists(Source& source, SpanOrder order) {
    for (size_t c = 1; c < kNumClasses; ++c)
      lists_[c].Init(static_cast<SizeClass>(c), &source, order);
  }
  CentralLists(const CentralLists&) = delete;
  CentralLists& operator=(const CentralLists&) = delete;

  size_t Take(SizeClass c, void** out, size_t n) { return lists_[Raw(c)].Take(out, n); }
  void Give(SizeClass c, void* const* objects, size_t n) { lists_[Raw(c)].Give(objects, n); }

  List& operator[](SizeClass c) { return lists_[Raw(c)]; }

  template <class F>
  void ForEach(F f) {
    for (size_t c = 1; c < kNumClasses; ++c) f(lists_[c]);
  }

  // Batches that came and went since the start.
  uint64_t moves() const {
    uint64_t sum = 0;
    for (size_t c = 1; c < kNumClasses; ++c) sum += lists_[c].moves();
    return sum;
  }

 private:
  List lists_[kMaxClasses];
};

}  // namespace strata
