// The central free lists of all classes, as the one tier below the transfer cache, and those of
// objects in groups, which the slow path asks. Sits in heaps.
// Thread-safe: one lock a class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "heaps/grouped_lists.h"
#include "span/central_free_list.h"
#include "span/size_classes.h"

namespace strata {

template <class Source>
class CentralLists {
 public:
  using List = CentralFreeList<Source>;

  CentralLists(Source& source, MetadataArena& arena, SpanOrder order)
      : groups_(source, arena, order) {
    for (size_t c = 1; c < kNumClasses; ++c)
      lists_[c].Init(static_cast<SizeClass>(c), &source, order);
  }
  CentralLists(const CentralLists&) = delete;
  CentralLists& operator=(const CentralLists&) = delete;

  size_t Take(SizeClass c, void** out, size_t n) { return lists_[Raw(c)].Take(out, n); }
  void Give(SizeClass c, void* const* objects, size_t n) { lists_[Raw(c)].Give(objects, n); }

  List& operator[](SizeClass c) { return lists_[Raw(c)]; }
  GroupedLists<Source>& groups() { return groups_; }
  // The list that a span of objects is on.
  List& ListOf(const Span& span) {
    return span.is_grouped() ? groups_.Of(span.size_class, span.group) : (*this)[span.size_class];
  }

  template <class F>
  void ForEach(F f) {
    for (size_t c = 1; c < kNumClasses; ++c) f(lists_[c]);
    groups_.ForEach(f);
  }

  // Batches that came and went since the start. Of groups objects come and go one by one.
  uint64_t moves() {
    uint64_t sum = 0;
    for (size_t c = 1; c < kNumClasses; ++c) sum += lists_[c].moves();
    return sum + groups_.moves() / kMaxBatch;
  }

 private:
  List lists_[kMaxClasses];
  GroupedLists<Source> groups_;
};

}  // namespace strata
