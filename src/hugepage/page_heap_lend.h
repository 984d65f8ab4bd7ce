// The part of PageHeap that lends hugepages to single CPUs (lent_pages.h). Only empty ones are
// lent, so whatever lies in a lent hugepage was put there by whom it is lent to; all of it counts
// as used meanwhile. Included by page_heap.h only.
#pragma once

#include "hugepage/page_heap.h"

namespace strata {

// To borrower `to`, from 1 on. Null when memory is out.
template <PageKernel Kernel>
HugeTracker* PageHeap<Kernel>::Lend(uint8_t to) {
  LockHolder hold(lock_);
  limit_hit_ = false;
  HugeTracker* t = AddTracker(kPagesInHugePage);
  if (t == nullptr) return nullptr;
  t->lent_to = to;
  map_[t->page()].state = HugePageState::kLent;
  used_ += kPagesInHugePage;
  NoteUse();
  NoteGrowth(kPagesInHugePage);
  return t;
}

// With what lies in it: runs that are given back to the page heap from now on.
template <PageKernel Kernel>
void PageHeap<Kernel>::TakeBackHolding(HugeTracker* t) {
  used_ -= kPagesInHugePage - Length(t->used());
  map_[t->page()].state = HugePageState::kFiller;
  if (t->empty()) {
    Retire(t);
  } else {
    filler_.Adopt(t);
  }
  NoteUse();
}

}  // namespace strata
