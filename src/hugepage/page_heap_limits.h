// The part of PageHeap that keeps away from the soft limit (design §4.6). Growth is counted inline,
// because a program can take a GiB between two looks of the background; the kernel is asked how
// much room is left only when a part of what it said last is used up, so a heap far from its limit
// asks a few times in its life. Included by page_heap.h only.
#pragma once

#include "hugepage/page_heap.h"
#include "os/side_stack.h"

namespace strata {

// `untouched`: what was handed out just now, so that the kernel does not count it yet. Drops the
// lock.
template <PageKernel Kernel>
STRATA_NOINLINE void PageHeap<Kernel>::LookAtSoftLimit(Length untouched) {
  OnSideStack([&]() STRATA_NO_TSA { LookAndRelease(untouched); });
}

template <PageKernel Kernel>
void PageHeap<Kernel>::LookAndRelease(Length untouched) {
  allowance_ = kUnlimited;  // one thread looks at a time
  lock_.Release();
  const int64_t headroom = kernel_.Headroom();
  lock_.Acquire();
  if (headroom == INT64_MAX) {
    tight_ = false;
    return;
  }
  const Length step = std::max(kLeastSoftStep, Charged() / kSoftStepsInHeap);
  const auto step_bytes = static_cast<int64_t>(BytesOf(step));
  const int64_t room = headroom - static_cast<int64_t>(BytesOf(untouched));
  tight_ = room < 4 * step_bytes;
  if (room >= step_bytes) {
    // A quarter of the room: what was handed out before may be touched only now.
    const Length quarter(static_cast<size_t>(room / 4) >> kPageShift);
    allowance_ = Charged() + std::max(quarter, step);
    return;
  }
  ++soft_hits_;
  const auto wanted = static_cast<size_t>(2 * step_bytes - room);
  const size_t released = ReleasePages(PagesCeil(wanted), HugeLength(0), Program::kIsShort);
  if (released < wanted) relief_wanted_.store(wanted - released, std::memory_order_relaxed);
  allowance_ = Charged() + (room < 0 ? step / 4 : step);
}

// Makes a fresh, untouched hugepage one that the kernel backs page by page as they are touched: all
// of it counts as released. One cheap call on a range without pages, under the lock: afterwards
// anyone may take pages of it.
template <PageKernel Kernel>
void PageHeap<Kernel>::BackByPages(HugeTracker* t) {
  t->NoteReleased(t->FreeBacked());
  t->broken = t->split = true;
  HugePageRecord& record = map_[t->page()];
  if (!options_.hugepages || record.no_huge) return;
  kernel_.AdviseNoHuge({t->page(), HugeLength(1)});
  record.no_huge = true;
  ++marked_;
}

}  // namespace strata
