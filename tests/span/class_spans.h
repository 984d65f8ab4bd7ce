// Spans of one class made by hand, for tests of what keeps and searches them: 32 objects of 1 KiB,
// so four to a native page and eight of these.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "../hugepage/test_arena.h"
#include "span/size_classes.h"
#include "span/span.h"
#include "span/span_lists.h"

namespace strata::test {

class ClassSpans {
 public:
  static constexpr size_t kObjects = 32, kIdle = 7;  // native pages of a span with one object

  // With the first `allocated` of its objects given out, last at the tick that the lists have.
  Span* Add(SpanLists& lists, size_t allocated) STRATA_EXCLUDES(lists.lock) {
    const SizeClass c = ClassOfSize(1024);
    Span* span = pool_.New(kObjects);
    span->size_class = c;
    span->num_pages = InfoOf(c).pages;
    span->first_page = static_cast<uint32_t>(made_++ * span->num_pages);
    span->InitBits();
    LockHolder hold(lists.lock);
    lists.Add(span);
    Set(lists, span, allocated);
    return span;
  }
  // As if that many, the first ones, were given out now.
  static void Set(SpanLists& lists, Span* span, size_t allocated) STRATA_REQUIRES(lists.lock) {
    span->InitBits();
    *span->free_bits() &= ~((uint64_t{1} << allocated) - 1);
    lists.Recount(span, allocated);
  }

 private:
  TestArena arena_;
  SpanPool pool_{arena_.arena()};
  size_t made_ = 0;
};

}  // namespace strata::test
