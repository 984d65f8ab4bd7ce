// The part of PageHeap that hands out, takes back and resizes runs. Included by page_heap.h only.
#pragma once

#include "hugepage/page_heap.h"
#include "os/side_stack.h"

namespace strata {

template <PageKernel Kernel>
PageRun PageHeap<Kernel>::TakeHolding(const PageRequest& r) {
  if (r.length > PagesOf(kernel_.window())) return {};  // whatever is released
  STRATA_DCHECK(r.length > Length(0) && IsPowerOfTwo(r.align.raw()));
  if (STRATA_UNLIKELY(Backed() > hard_limit_)) {
    ReleaseForRequest(Backed() - hard_limit_);  // it was lowered
  }
  PageRun run = TakeOnce(r);
  if (STRATA_UNLIKELY(run.range.empty())) {
    // What is released may go to another thread, so once is not always enough.
    for (int i = 0; i < kAttempts && run.range.empty() && MakeRoom(r.length); ++i)
      run = TakeOnce(r);
    if (run.range.empty()) {
      hard_failures_ += limit_hit_ ? 1 : 0;
      return {};
    }
  }
  used_ += r.length;
  NoteUse();
  NoteGrowth(r.length);
  return run;
}

template <PageKernel Kernel>
void PageHeap<Kernel>::GiveHolding(PageRange r) {
  used_ -= r.length;
  GiveOnce(r);
  NoteUse();
}

template <PageKernel Kernel>
bool PageHeap<Kernel>::TryGrowHolding(PageRange r, Length new_length) {
  if (new_length <= r.length) return new_length == r.length;
  if (!GrowOnce(r, new_length)) return false;
  used_ += new_length - r.length;
  NoteUse();
  NoteGrowth(new_length - r.length);
  return true;
}

template <PageKernel Kernel>
void PageHeap<Kernel>::ShrinkHolding(PageRange r, Length new_length) {
  STRATA_DCHECK(new_length > Length(0) && new_length <= r.length);
  if (new_length == r.length) return;
  used_ -= r.length - new_length;
  ShrinkOnce(r, new_length);
  NoteUse();
}

template <PageKernel Kernel>
PageRun PageHeap<Kernel>::TakeOnce(const PageRequest& r) {
  limit_hit_ = false;
  const Length n = r.length;
  if (n <= kSmall && n + r.align <= kPagesInHugePage + Length(1)) return TakeSmall(r);
  if (r.align > Length(1) || n > kLargest || n % kPagesInHugePage == Length(0)) return TakeWhole(r);
  PageRun run;
  if (n < kPagesInHugePage) run = filler_.TryTake(r, BrokenFor(n));
  if (run.range.empty()) run = TakeFromRegion(n);
  if (!run.range.empty()) return run;
  const Length slack = filler_.slack();
  if (slack >= kSlackLimit && slack >= filler_.used() && AddRegion()) run = TakeFromRegion(n);
  return run.range.empty() ? TakeWhole(r) : run;
}

template <PageKernel Kernel>
HugeFiller::Broken PageHeap<Kernel>::BrokenFor(Length n) {
  return MayBack(n) ? HugeFiller::Broken::kAllow : HugeFiller::Broken::kAvoid;
}

template <PageKernel Kernel>
PageRun PageHeap<Kernel>::TakeSmall(const PageRequest& r) {
  const PageRun run = filler_.TryTake(r, BrokenFor(r.length));
  if (STRATA_LIKELY(!run.range.empty())) return run;
  HugeTracker* t = AddTracker(r.length);
  if (t != nullptr) return filler_.Contribute(t, r);
  // Better among the others than nowhere.
  const PageRun beside = filler_.TryTake({r.length, r.align, !r.dense}, BrokenFor(r.length));
  if (!beside.range.empty()) return beside;
  return MayBack(r.length) ? filler_.TakeFromEmpties(r) : PageRun{};
}

// One more hugepage with a record. `least` as for TakeHugePages.
template <PageKernel Kernel>
STRATA_NOINLINE HugeTracker* PageHeap<Kernel>::AddTracker(Length least) {
  HugeTracker* t = nullptr;
  OnSideStack([&]() STRATA_NO_TSA { t = AddTrackerHere(least); });
  return t;
}

template <PageKernel Kernel>
HugeTracker* PageHeap<Kernel>::AddTrackerHere(Length least) {
  Fresh kind;
  const HugeRange fresh = TakeHugePages(HugeLength(1), HugeLength(1), least, &kind, OnStack::kSide);
  if (fresh.empty()) return nullptr;
  HugeTracker* t = NewTracker(fresh.first, kind);
  if (t != nullptr) return t;
  if (kind == Fresh::kUsed) {
    cache_.Give(fresh, kernel_.CoarseNowNs());
  } else {
    cache_.NoteGone(fresh.length, kernel_.CoarseNowNs());
    allocator_.Give(fresh);
  }
  return nullptr;
}

// A fresh record for a hugepage that joins the filler; null when metadata is out of memory.
template <PageKernel Kernel>
HugeTracker* PageHeap<Kernel>::NewTracker(HugePageId page, Fresh kind) {
  HugeTracker* t = filler_.Prepare() ? trackers_.New() : nullptr;
  if (t == nullptr) return nullptr;
  t->Init(page, kind != Fresh::kUsed);
  HugePageRecord& record = map_[page];
  // The end of a large run came into use with it.
  if (record.state != HugePageState::kLarge) record.in_use_since_s = Seconds(kernel_.CoarseNowNs());
  record.state = HugePageState::kFiller;
  record.tracker = t;
  if (kind == Fresh::kSparse) BackByPages(t);
  return t;
}

// From the most fragmented region that can hold it.
template <PageKernel Kernel>
PageRun PageHeap<Kernel>::TakeFromRegion(Length n) {
  HugeRegion* best = nullptr;
  for (HugeRegion* g = regions_.first(); g != nullptr; g = IntrusiveList<HugeRegion>::Next(g)) {
    if (g->longest() >= n.raw() && (best == nullptr || g->longest() < best->longest())) best = g;
  }
  if (best == nullptr || !MayBack(PagesOf(HugeRegion::MostBacked(n)))) return {};
  region_backed_ -= best->backed();
  const PageRun run = best->TryTake(n);
  region_backed_ += best->backed();
  region_used_ += n;
  return run;
}

template <PageKernel Kernel>
bool PageHeap<Kernel>::AddRegion() {
  HugeRegion* g = regions_pool_.New();
  if (g == nullptr) return false;
  const HugeRange r = TakeUnbacked(HugeRegion::kSize, HugeLength(1));
  if (r.empty()) {
    regions_pool_.Delete(g);
    return false;
  }
  g->Init(r.first);
  map_.SetState(r, HugePageState::kRegion);
  const uint32_t now_s = Seconds(kernel_.CoarseNowNs());
  for (HugePageId p = r.first; p < r.end(); p += HugeLength(1)) {
    map_[p].region = g;
    map_[p].in_use_since_s = now_s;
  }
  regions_.PushFront(g);
  return true;
}

// `least`: how many pages of them the caller will hand out; near a limit only those are backed.
template <PageKernel Kernel>
HugeRange PageHeap<Kernel>::TakeHugePages(HugeLength n, HugeLength align, Length least, Fresh* kind,
                                          OnStack where) {
  const uint64_t now = kernel_.CoarseNowNs();
  *kind = Fresh::kUsed;
  if (align == HugeLength(1)) {
    const HugeRange cached = cache_.TryTake(n, now);
    if (!cached.empty()) return cached;
  }
  const bool sparse = least < PagesOf(n) && MayMark() && (tight_ || !MayBack(PagesOf(n)));
  if (!MayBack(sparse ? least : PagesOf(n))) return {};
  // Its lists first: the address space taken next may be all that the kernel had left to give.
  if (!filler_.Prepare()) return {};
  const HugeRange fresh =
      where == OnStack::kSide ? allocator_.Take(n, align) : TakeUnbacked(n, align);
  if (fresh.empty()) return {};
  cache_.NoteTaken(n, now);
  *kind = sparse ? Fresh::kSparse : Fresh::kZero;
  return fresh;
}

template <PageKernel Kernel>
STRATA_NOINLINE HugeRange PageHeap<Kernel>::TakeUnbacked(HugeLength n, HugeLength align) {
  HugeRange fresh;
  OnSideStack([&]() STRATA_NO_TSA { fresh = allocator_.Take(n, align); });
  return fresh;
}

// Whole hugepages; the tail of the last goes to the filler.
template <PageKernel Kernel>
PageRun PageHeap<Kernel>::TakeWhole(const PageRequest& r) {
  const HugeLength align(std::max<size_t>(r.align.raw() / kPagesPerHugePage, 1));
  Fresh kind;
  const HugeRange whole =
      TakeHugePages(HugeCeil(r.length), align, r.length, &kind, OnStack::kCallers);
  if (whole.empty()) return {};
  BeginLarge(whole);
  const PageRange run{FirstPage(whole.first), r.length};
  DonateTail(run, kind);
  return {run, kind != Fresh::kUsed};
}

template <PageKernel Kernel>
void PageHeap<Kernel>::BeginLarge(HugeRange r) {
  map_.SetState(r, HugePageState::kLarge);
  large_ += r.length;
  const uint32_t now_s = Seconds(kernel_.CoarseNowNs());
  for (HugePageId p = r.first; p < r.end(); p += HugeLength(1)) map_[p].in_use_since_s = now_s;
}

// Hands what a large run leaves of its last hugepage to the filler; all of it must be in state
// kLarge. Without metadata the tail stays the run's, unused.
template <PageKernel Kernel>
bool PageHeap<Kernel>::DonateTail(PageRange large, Fresh kind) {
  const Length head = large.length % kPagesInHugePage;
  if (head == Length(0)) return false;
  HugeTracker* t = NewTracker(HugePageOf(large.end()), kind);
  if (t == nullptr) return false;
  large_ -= HugeLength(1);
  filler_.ContributeTail(t, head);
  return true;
}

// After a failed TakeOnce: releases what may have stood in its way. False: nothing did.
template <PageKernel Kernel>
bool PageHeap<Kernel>::MakeRoom(Length n) {
  // Under a limit, as much as the request may back. Otherwise cached ranges, which cannot join the
  // free ranges next to them while they are backed.
  const Length wanted = limit_hit_ ? PagesOf(HugeCeil(n) + HugeLength(2)) : PagesOf(cache_.size());
  return ReleaseForRequest(wanted) > 0;
}

template <PageKernel Kernel>
void PageHeap<Kernel>::GiveOnce(PageRange r) {
  HugePageRecord& record = RecordOf(r.first);
  switch (record.state) {
    case HugePageState::kFiller:
      return GiveToFiller(record.tracker, r);
    case HugePageState::kLarge:
      return GiveLarge(r);
    case HugePageState::kRegion:
      region_used_ -= r.length;
      return record.region->Give(r);
    default:
      STRATA_CHECK(!"a run that was never taken");
  }
}

template <PageKernel Kernel>
void PageHeap<Kernel>::GiveToFiller(HugeTracker* t, PageRange r) {
  if (filler_.Give(t, r) == HugeFiller::Left::kNothing) Retire(t);
}

// A hugepage that left the filler whole and empty.
template <PageKernel Kernel>
void PageHeap<Kernel>::Retire(HugeTracker* t) {
  const HugePageId page = t->page();
  trackers_.Delete(t);
  cache_.Give({page, HugeLength(1)}, kernel_.CoarseNowNs());
}

template <PageKernel Kernel>
void PageHeap<Kernel>::GiveLarge(PageRange r) {
  HugeRange whole{HugePageOf(r.first), HugeCeil(r.length)};
  const HugePageId last = whole.end() - HugeLength(1);
  if (map_[last].state == HugePageState::kFiller) {
    const PageId tail = FirstPage(last);
    GiveToFiller(map_[last].tracker, {tail, r.end() - tail});
    whole.length -= HugeLength(1);
  }
  large_ -= whole.length;
  cache_.Give(whole, kernel_.CoarseNowNs());
}

template <PageKernel Kernel>
bool PageHeap<Kernel>::GrowOnce(PageRange r, Length new_length) {
  limit_hit_ = false;
  const HugePageRecord& record = RecordOf(r.first);
  if (record.state == HugePageState::kRegion) {
    HugeRegion* g = record.region;
    if (!MayBack(PagesOf(HugeRegion::MostBacked(new_length - r.length)))) return false;
    region_backed_ -= g->backed();
    const bool grown = g->TryGrow(r, new_length);
    region_backed_ += g->backed();
    if (grown) region_used_ += new_length - r.length;
    return grown;
  }
  const HugePageId last = HugePageOf(r.end() - Length(1));
  if (HugePageOf(r.first + new_length - Length(1)) > last) return GrowOver(r, new_length);
  // The tail was never donated.
  if (map_[last].state == HugePageState::kLarge) return MayBack(new_length - r.length);
  HugeTracker* t = map_[last].tracker;
  const PageId from = std::max(r.first, FirstPage(last));
  return BrokenFor(new_length - r.length) == HugeFiller::Broken::kAllow &&
         filler_.TryGrow(t, {from, r.end() - from}, r.first + new_length - from);
}

// Over the end of the run's last hugepage, into free ones behind it.
template <PageKernel Kernel>
bool PageHeap<Kernel>::GrowOver(PageRange r, Length new_length) {
  const HugePageId first = HugePageOf(r.first), last = HugePageOf(r.end() - Length(1));
  if (FirstPage(first) != r.first) return false;  // a small run in the middle of its hugepage
  HugeTracker* tail = map_[last].state == HugePageState::kFiller ? map_[last].tracker : nullptr;
  if (tail != nullptr) {
    const bool alone = tail->used() == tail->donated_head && tail->donated_head != 0;
    if (!alone || tail->broken || tail->detached) return false;
  }
  const HugeRange more{last + HugeLength(1), HugeCeil(new_length) - (last + HugeLength(1) - first)};
  if (!FreeFrom(more) || !MayBack(PagesOf(more.length))) return false;
  if (tail != nullptr) {
    filler_.TakeBack(tail);
    trackers_.Delete(tail);
    map_[last].state = HugePageState::kLarge;
    large_ += HugeLength(1);
  }
  const uint64_t now = kernel_.CoarseNowNs();
  for (HugePageId p = more.first; p < more.end();) {
    const bool cached = map_[p].state == HugePageState::kCached;
    const HugeLength here =
        std::min(cached ? cache_.CachedAt(p) : allocator_.FreeAt(p), more.end() - p);
    if (cached) {
      cache_.TakeFront({p, here}, now);
    } else {
      allocator_.TakeFront({p, here});
      cache_.NoteTaken(here, now);
    }
    p += here;
  }
  BeginLarge(more);
  DonateTail({r.first, new_length}, Fresh::kUsed);
  return true;
}

// Whether all of r, which follows a hugepage in use, is free; so each free range in it begins there
// too.
template <PageKernel Kernel>
bool PageHeap<Kernel>::FreeFrom(HugeRange r) const {
  for (HugePageId p = r.first; p < r.end();) {
    const HugePageRecord* record = map_.Find(p);
    if (record == nullptr) return false;
    if (record->state != HugePageState::kCached && record->state != HugePageState::kFree)
      return false;
    p += HugeLength(record->length);
  }
  return true;
}

template <PageKernel Kernel>
void PageHeap<Kernel>::ShrinkOnce(PageRange r, Length new_length) {
  const HugePageRecord& record = RecordOf(r.first);
  if (record.state == HugePageState::kRegion) {
    region_used_ -= r.length - new_length;
    return record.region->Shrink(r, new_length);
  }
  const PageRange kept{r.first, new_length};
  const HugePageId last = HugePageOf(r.end() - Length(1)),
                   new_last = HugePageOf(kept.end() - Length(1));
  if (last == new_last) {
    if (map_[last].state == HugePageState::kFiller) {
      const PageId from = std::max(r.first, FirstPage(last));
      filler_.Shrink(map_[last].tracker, {from, r.end() - from}, kept.end() - from);
    } else {
      DonateTail(kept, Fresh::kUsed);
    }
    return;
  }
  const PageId cut = FirstPage(new_last + HugeLength(1));
  if (map_[HugePageOf(cut)].state == HugePageState::kFiller) {
    GiveToFiller(map_[HugePageOf(cut)].tracker, {cut, r.end() - cut});
  } else {
    GiveLarge({cut, r.end() - cut});
  }
  DonateTail(kept, Fresh::kUsed);
}

}  // namespace strata
