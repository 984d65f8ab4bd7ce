// Finds the native pages inside spans in use on which no object lives, counts them, and gives them
// back with everybody kept off them meanwhile. Remembers whether a search can find anything that
// the last did not, which spares an idle program the walk over its spans. One for each size class,
// for the background thread. Sits in span, between the central free list and its spans.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "hugepage/break_policy.h"
#include "span/idle_pages.h"
#include "span/span.h"
#include "span/span_lists.h"

namespace strata {

// Source: InUseRelease ReleaseInUse(NativeRange*, n, Program), Lock& isolation_lock() and
// void NoteIdle(const NativePages*, n).
class IdleSearch {
 public:
  IdleSearch() = default;
  IdleSearch(const IdleSearch&) = delete;
  IdleSearch& operator=(const IdleSearch&) = delete;

  // Objects came back, so a search may find more. Any thread.
  void NoteGiven() { may_find_.store(true, std::memory_order_relaxed); }
  bool may_find() const { return may_find_.load(std::memory_order_relaxed); }

  // Spans that were searched and not touched since are searched once more: the kernel gave some of
  // them memory again.
  void Anew(SpanLists& spans) STRATA_EXCLUDES(spans.lock) {
    LockHolder hold(spans.lock);
    spans.SearchAnew();
    NoteGiven();
  }

  // Tells the source of the idle pages of all spans not touched since `before`. False: there are
  // none.
  template <class Source>
  bool Survey(SpanLists& spans, Source& source, uint32_t before) STRATA_EXCLUDES(spans.lock);

  // Gives them back, where the source finds it worth while; at most `limit` bytes, by a little.
  // Nothing unless NoteGiven or Anew was called since it last did. Returns the bytes given back.
  template <class Source>
  size_t Release(SpanLists& spans, Source& source, uint32_t before, size_t limit, Program program)
      STRATA_EXCLUDES(spans.lock);

 private:
  using Searched = SpanLists::Searched;

  void Begin(SpanLists& spans) STRATA_EXCLUDES(spans.lock) {
    LockHolder hold(spans.lock);
    spans.BeginSearch();
  }
  template <class F>
  Searched Walk(SpanLists& spans, uint32_t before, F f) STRATA_EXCLUDES(spans.lock);
  Searched Count(SpanLists& spans, uint32_t before, IdleSpans& batch) STRATA_EXCLUDES(spans.lock);
  Searched Isolate(SpanLists& spans, uint32_t before, IsolatedSpans& batch)
      STRATA_EXCLUDES(spans.lock);
  void Rejoin(SpanLists& spans, const IsolatedSpans& batch) STRATA_EXCLUDES(spans.lock);

  std::atomic<bool> may_find_{false};
  std::atomic<bool> left_alone_{false};  // idle pages, by the last release; background thread only
};

// Spans are isolated in batches, so that the kernel gets many ranges in one call. The isolation
// lock is held for one batch at a time: a fork waits for that much, and its child never finds a
// span isolated for good.
template <class Source>
size_t IdleSearch::Release(SpanLists& spans, Source& source, uint32_t before, size_t limit,
                           Program program) {
  const bool all = program == Program::kIsShort && left_alone_.load(std::memory_order_relaxed);
  if (all) Anew(spans);
  if (!may_find_.exchange(false, std::memory_order_relaxed)) return 0;
  if (all) left_alone_.store(false, std::memory_order_relaxed);
  Begin(spans);
  size_t total = 0;
  Searched searched = Searched::kSome;
  while (searched == Searched::kSome && total < limit) {
    LockHolder isolating(source.isolation_lock());
    IsolatedSpans batch;
    searched = Isolate(spans, before, batch);
    if (batch.spans == 0) continue;
    const auto released = source.ReleaseInUse(batch.ranges, batch.used, program);
    Rejoin(spans, batch);
    total += released.bytes;
    if (released.refused) break;  // not tried again at once
  }
  if (searched == Searched::kSome) NoteGiven();
  return total;
}

// The same walk, over all spans, to count only.
template <class Source>
bool IdleSearch::Survey(SpanLists& spans, Source& source, uint32_t before) {
  Anew(spans);
  may_find_.store(false, std::memory_order_relaxed);
  Begin(spans);
  bool any = false;
  Searched searched = Searched::kSome;
  while (searched == Searched::kSome) {
    IdleSpans batch;
    searched = Count(spans, before, batch);
    if (batch.used == 0) continue;
    any = true;
    source.NoteIdle(batch.spans, batch.used);
  }
  return any;
}

// Calls f(Span*, idle pages) on spans that have such, until it says no.
template <class F>
IdleSearch::Searched IdleSearch::Walk(SpanLists& spans, uint32_t before, F f) {
  LockHolder hold(spans.lock);
  const SpanLists::Walked walked = spans.Walk(before, [&f](Span* s) {
    const uint64_t idle = IdleNativePages(*s);
    return idle == 0 || f(s, idle);
  });
  if (walked.passed_fresh) NoteGiven();  // come again
  return walked.searched;
}

inline IdleSearch::Searched IdleSearch::Isolate(SpanLists& spans, uint32_t before,
                                                IsolatedSpans& batch) {
  return Walk(spans, before, [&batch](Span* s, uint64_t idle) {
    s->state = SpanState::kIsolated;
    batch.Add(s, idle);
    return !batch.IsFull();
  });
}

inline IdleSearch::Searched IdleSearch::Count(SpanLists& spans, uint32_t before, IdleSpans& batch) {
  return Walk(spans, before, [&batch](Span* s, uint64_t idle) {
    batch.spans[batch.used++] = {s->start_offset(), idle};
    return batch.used < IdleSpans::kSpans;
  });
}

// Whether the kernel took a page or not: maybe_gone says so. Not of pages that were left alone.
inline void IdleSearch::Rejoin(SpanLists& spans, const IsolatedSpans& batch) {
  LockHolder hold(spans.lock);
  for (size_t i = 0; i < batch.spans; ++i) {
    batch.span[i]->maybe_gone |= batch.Tried(i);
    if (batch.LeftAlone(i)) left_alone_.store(true, std::memory_order_relaxed);
    spans.Rejoin(batch.span[i]);
  }
}

}  // namespace strata
