// The half of PageHeap that gives memory back and rebuilds hugepages (papers §2.7, §3). Each step
// takes its pages out of everyone's reach under the lock, drops the lock for the kernel's work, and
// puts them back. Included by page_heap.h only.
#pragma once

#include <bit>

#include "hugepage/page_heap.h"
#include "os/side_stack.h"

namespace strata {

// What is to be done to one hugepage with the lock dropped.
template <PageKernel Kernel>
struct PageHeap<Kernel>::Piece {
  HugePageId page;
  PageBitmap<kPagesPerHugePage> pages;  // to release
  bool mark = false;                    // advise the kernel against a hugepage here
  bool split = false;                   // the kernel has not taken it apart yet
  NativeRange used = {};                // something in it that stays; no bytes: nothing does
};

template <PageKernel Kernel>
size_t PageHeap<Kernel>::ReleaseNow(size_t bytes) {
  LockHolder hold(lock_);
  return ReleasePages(PagesCeil(bytes), HugeLength(0), Program::kIsShort);
}

template <PageKernel Kernel>
size_t PageHeap<Kernel>::Tick(bool calls_rest, Program program) {
  LockHolder hold(lock_);
  const uint64_t now = kernel_.CoarseNowNs();
  demand_.Advance(now, calls_rest);
  if (program != Program::kRests) {
    rests_since_s_ = rested_s_ = 0;
  } else if (rests_since_s_ == 0) {
    rests_since_s_ = Seconds(now);
  } else {
    rested_s_ = Seconds(now) - rests_since_s_;
  }
  const Length demand(demand_.Demand());
  last_demand_ = demand;
  if (!options_.release) return 0;
  cache_.Adjust(now);
  DropEmptyRegions();
  size_t released = BytesOf(ReleaseEmpties());
  // A busy program's next runs land in hugepages that have room: those are not broken under its
  // feet.
  const Length wanted = demand_.idle() ? demand : demand + HeadroomOf(demand);
  const Length backed = used_ + FreeBacked();
  if (backed > wanted) {
    // A busy program's cache is kept up to its limit while regions have anything to give.
    released += ReleasePages(std::min(backed - wanted, FreeBacked()),
                             demand_.idle() ? HugeLength(0) : cache_.limit(), program);
  }
  if (options_.hugepages && program == Program::kWorks && collapse_pacer_.Due())
    CollapseSome(wanted);
  return released;
}

// Order (papers §2.7): the cache, regions, and only then pages of hugepages in use.
template <PageKernel Kernel>
size_t PageHeap<Kernel>::ReleasePages(Length target, HugeLength keep_cached, Program program) {
  Length released = ReleaseEmpties();
  if (released < target) released += ReleaseFromCache(target - released, keep_cached);
  if (released < target) released += ReleaseFromRegions(target - released);
  if (released < target && keep_cached > HugeLength(0)) {
    released += ReleaseFromCache(target - released, HugeLength(0));
  }
  if (released < target) released += ReleaseFromFiller(target - released, program);
  return BytesOf(released);
}

template <PageKernel Kernel>
STRATA_NOINLINE size_t PageHeap<Kernel>::ReleaseForRequest(Length target) {
  size_t released = 0;
  OnSideStack(
      [&]() STRATA_NO_TSA { released = ReleasePages(target, HugeLength(0), Program::kIsShort); });
  return released;
}

template <PageKernel Kernel>
Length PageHeap<Kernel>::ReleaseFromCache(Length target, HugeLength keep) {
  Length released;
  while (released < target && cache_.size() > keep) {
    const HugeLength most =
        std::min({HugeCeil(target - released), cache_.size() - keep, kReleaseChunk});
    const HugeRange r = cache_.TakeForRelease(most, kernel_.CoarseNowNs());
    map_.SetState(r, HugePageState::kInFlight);
    in_flight_ += r.length;
    const NativeRange bytes{OffsetOf(r.first), BytesOf(r.length)};
    lock_.Release();
    const bool ok = kernel_.Release(&bytes, 1);
    lock_.Acquire();
    in_flight_ -= r.length;
    if (!ok) {
      cache_.PutBack(r, kernel_.CoarseNowNs());
      break;
    }
    allocator_.Give(r);
    released += PagesOf(r.length);
    released_total_ += bytes.bytes;
  }
  return released;
}

template <PageKernel Kernel>
Length PageHeap<Kernel>::ReleaseFromRegions(Length target) {
  Length released;
  for (HugeRegion* g = regions_.first(); g != nullptr; g = IntrusiveList<HugeRegion>::Next(g)) {
    while (released < target) {
      const HugeRange r = g->DetachForRelease(HugeCeil(target - released));
      if (r.empty()) break;
      const NativeRange bytes{OffsetOf(r.first), BytesOf(r.length)};
      lock_.Release();
      const bool ok = kernel_.Release(&bytes, 1);
      lock_.Acquire();
      g->FinishRelease(r, ok);
      if (!ok) return released;
      region_backed_ -= PagesOf(r.length);
      released += PagesOf(r.length);
      released_total_ += bytes.bytes;
    }
  }
  return released;
}

template <PageKernel Kernel>
Length PageHeap<Kernel>::ReleaseFromFiller(Length target, Program program) {
  Length released;
  while (released < target) {
    HugeTracker* batch[kReleaseBatch];
    const size_t n = filler_.DetachForRelease(batch, kReleaseBatch);
    size_t enough = 0;  // the batch is in order of preference: put back what is not needed
    for (Length free; enough < n && released + free < target; ++enough) {
      if (!IsWorthBreaking(SnapshotOf(*batch[enough], 0, program))) break;
      free += Length(batch[enough]->free_backed());
    }
    for (size_t i = enough; i < n; ++i) ReattachOrRetire(batch[i]);
    const Length now = ReleaseDetached(batch, enough);
    if (now == Length(0)) break;
    released += now;
  }
  return released;
}

template <PageKernel Kernel>
Length PageHeap<Kernel>::ReleaseEmpties() {
  Length released;
  while (filler_.has_empties()) {
    HugeTracker* batch[kReleaseBatch];
    const size_t n = filler_.DetachEmpties(batch, kReleaseBatch);
    size_t unreleased = 0;
    for (size_t i = 0; i < n; ++i) unreleased += batch[i]->free_backed();
    const Length now = ReleaseDetached(batch, n);
    released += now;
    if (now < Length(unreleased)) break;  // refused
  }
  return released;
}

// Gives back all free pages of detached hugepages and attaches them again; those left empty and all
// released go back to the allocator.
template <PageKernel Kernel>
Length PageHeap<Kernel>::ReleaseDetached(HugeTracker* const* trackers, size_t n) {
  Piece pieces[kReleaseBatch];
  bool done[kReleaseBatch];
  STRATA_DCHECK(n <= kReleaseBatch);
  for (size_t i = 0; i < n; ++i) {
    pieces[i].pages = trackers[i]->FreeBacked();
    BeginBreaking(trackers[i], &pieces[i]);
  }
  lock_.Release();
  for (size_t i = 0; i < n; ++i) {
    NativeRange ranges[kPagesPerHugePage / 2];
    size_t count = 0;
    const size_t base = OffsetOf(pieces[i].page);
    pieces[i].pages.ForRuns([&](size_t at, size_t length) {
      ranges[count++] = {base + BytesOf(Length(at)), BytesOf(Length(length))};
    });
    done[i] = ActOn(pieces[i], ranges, count);
  }
  lock_.Acquire();
  Length released;
  for (size_t i = 0; i < n; ++i) {
    HugeTracker* t = trackers[i];
    if (done[i]) {
      const Length pages(pieces[i].pages.Count());
      filler_.Change(t, [&] { t->NoteReleased(pieces[i].pages); });
      t->split |= pieces[i].split;
      released += pages;
    }
    ReattachOrRetire(t);
  }
  released_total_ += BytesOf(released);
  return released;
}

// Notes that a detached hugepage is to be broken, and what the kernel must be told about it.
template <PageKernel Kernel>
void PageHeap<Kernel>::BeginBreaking(HugeTracker* t, Piece* piece) {
  piece->page = t->page();
  const size_t used = t->FirstUsedNative();
  if (used < kNativePerHugePage) {
    piece->used = {OffsetOf(t->page()) + used * kNativePageSize, kNativePageSize};
  }
  piece->split = !t->split && piece->used.bytes != 0;
  if (t->broken) return;
  filler_.Change(t, [t] { t->broken = true; });
  HugePageRecord& record = map_[t->page()];
  if (options_.hugepages && !record.no_huge && marked_ < kMarkBudget) {
    record.no_huge = piece->mark = true;
    ++marked_;
  }
}

template <PageKernel Kernel>
bool PageHeap<Kernel>::ActOn(const Piece& piece, const NativeRange* ranges, size_t n) {
  // The advice comes first, so that the kernel's own thread does not rebuild the hugepage at once.
  if (piece.mark) kernel_.AdviseNoHuge({piece.page, HugeLength(1)});
  if (n != 0 && !kernel_.Release(ranges, n)) return false;
  if (piece.split) kernel_.SplitHugePage(piece.page, piece.used);
  return true;
}

// Ends a detachment. A hugepage that is empty and not backed at all leaves the filler for the
// allocator.
template <PageKernel Kernel>
void PageHeap<Kernel>::ReattachOrRetire(HugeTracker* t) {
  const HugePageId page = t->page();
  if (!t->empty() || t->free_backed() != 0) {
    if (filler_.Reattach(t) == HugeFiller::Left::kNothing) Retire(t);
    return;
  }
  filler_.Discard(t);
  trackers_.Delete(t);
  HugePageRecord& record = map_[page];
  if (record.no_huge) {
    // One cheap call on a range without pages, under the lock: afterwards anyone may take the
    // hugepage.
    kernel_.AdviseHuge({page, HugeLength(1)});
    record.no_huge = record.plain = false;
    --marked_;
  }
  cache_.NoteGone(HugeLength(1), kernel_.CoarseNowNs());
  allocator_.Give({page, HugeLength(1)});
}

template <PageKernel Kernel>
void PageHeap<Kernel>::NoteIdle(const NativePages* spans, size_t n) {
  LockHolder hold(lock_);
  for (size_t i = 0; i < n; ++i) {
    const size_t natives = static_cast<size_t>(64 - std::countl_zero(spans[i].pages));
    size_t seen = 0;
    ForEachPart({spans[i].offset, natives * kNativePageSize}, [&](HugePageId page, size_t,
                                                                  size_t native) STRATA_NO_TSA {
      const uint64_t part = spans[i].pages >> seen;
      const uint64_t mask = native >= 64 ? ~uint64_t{0} : (uint64_t{1} << native) - 1;
      seen += native;
      const HugePageRecord* record = map_.Find(page);
      if (record == nullptr || record->state != HugePageState::kFiller) return;
      record->tracker->NoteIdle(static_cast<size_t>(std::popcount(part & mask)), survey_);
    });
  }
}

template <PageKernel Kernel>
InUseRelease PageHeap<Kernel>::ReleaseInUse(NativeRange* ranges, size_t n, Program program) {
  LockHolder hold(lock_);
  InUseRelease result;
  NativeRange batch[kInUseBatch];  // all in one hugepage
  size_t count = 0;
  const auto flush = [&]() STRATA_NO_TSA {
    if (count == 0) return;
    const InUseRelease part = ReleaseInHugePage(batch, count);
    result.bytes += part.bytes;
    result.refused |= part.refused;
    count = 0;
  };
  for (size_t i = 0; i < n; ++i) {
    ForEachPart(ranges[i], [&](HugePageId page, size_t at, size_t native) STRATA_NO_TSA {
      if (count != 0 && batch[0].offset >> kHugePageShift != page.raw()) flush();
      const HugePageRecord* record = map_.Find(page);
      if (record == nullptr || record->state != HugePageState::kFiller) return;
      // A run of the filler lies in one hugepage, so nothing of the range was taken yet.
      const HugeTracker& t = *record->tracker;
      if (!IsWorthBreaking(SnapshotOf(t, t.IdleAt(survey_), program))) {
        ranges[i].bytes = 0;
        return;
      }
      record->tracker->ForNotGone(at, native, [&](size_t from, size_t length) {
        if (count == kInUseBatch) return;  // more pieces than a span has: left for the next time
        batch[count++] = {OffsetOf(page) + from * kNativePageSize, length * kNativePageSize};
      });
    });
    if (count + kPiecesOfARange > kInUseBatch) flush();
  }
  flush();
  released_total_ += result.bytes;
  return result;
}

// Ranges in one hugepage.
template <PageKernel Kernel>
InUseRelease PageHeap<Kernel>::ReleaseInHugePage(const NativeRange* ranges, size_t n) {
  const HugePageId page(ranges[0].offset >> kHugePageShift);
  const HugePageRecord* record = map_.Find(page);
  if (record == nullptr || record->state != HugePageState::kFiller) return {};
  HugeTracker* t = record->tracker;
  if (t->detached || t->empty()) return {};
  filler_.Detach(t);
  size_t bytes = 0;
  filler_.Change(t, [&] {
    for (size_t i = 0; i < n; ++i) {
      const size_t at = (ranges[i].offset - OffsetOf(page)) >> kNativePageShift;
      t->NoteGone(at, ranges[i].bytes >> kNativePageShift);
      bytes += ranges[i].bytes;
    }
  });
  Piece piece;
  BeginBreaking(t, &piece);
  lock_.Release();
  const bool ok = ActOn(piece, ranges, n);
  lock_.Acquire();
  if (ok) {
    t->split |= piece.split;
  } else {
    bytes = 0;
    filler_.Change(t, [&] {
      for (size_t i = 0; i < n; ++i) {
        const size_t at = (ranges[i].offset - OffsetOf(page)) >> kNativePageShift;
        t->NoteReused(at, ranges[i].bytes >> kNativePageShift);
      }
    });
  }
  ReattachOrRetire(t);
  return {bytes, !ok};
}

template <PageKernel Kernel>
void PageHeap<Kernel>::NoteReused(const NativePages* spans, size_t n) {
  LockHolder hold(lock_);
  const size_t gone = filler_.gone_native();
  for (size_t i = 0; i < n; ++i) {
    for (uint64_t left = spans[i].pages; left != 0; left &= left - 1) {
      const size_t native =
          (spans[i].offset >> kNativePageShift) + static_cast<size_t>(std::countr_zero(left));
      const HugePageRecord* record = map_.Find(HugePageId(native / kNativePerHugePage));
      if (record == nullptr || record->state != HugePageState::kFiller) continue;
      HugeTracker* t = record->tracker;
      if (t->gone() == 0) continue;
      filler_.Change(t, [&] { t->NoteReused(native % kNativePerHugePage, 1); });
    }
  }
  const size_t reused = gone - filler_.gone_native();
  if (reused != 0) NoteGrowth(PagesCeil(reused * kNativePageSize));
}

// A region without runs becomes plain hugepages again.
template <PageKernel Kernel>
void PageHeap<Kernel>::DropEmptyRegions() {
  size_t dropped = 0;
  for (HugeRegion* g = regions_.first(); g != nullptr && dropped < kRegionsDropped;) {
    HugeRegion* next = IntrusiveList<HugeRegion>::Next(g);
    if (g->used() == Length(0) && !g->busy()) {
      ++dropped;
      const HugeRange all = g->range();
      regions_.Remove(g);
      region_backed_ -= g->backed();
      for (HugeRange r{all.first, HugeLength(0)}; r.first < all.end();
           r = {r.end(), HugeLength(0)}) {
        const bool backed = g->backed(r.first);
        while (r.end() < all.end() && g->backed(r.end()) == backed) r.length += HugeLength(1);
        if (backed) {
          cache_.PutBack(r, kernel_.CoarseNowNs());
        } else {
          allocator_.Give(r);
        }
      }
      regions_pool_.Delete(g);
    }
    g = next;
  }
}

template <PageKernel Kernel>
void PageHeap<Kernel>::RecoverInChild() {
  LockHolder hold(lock_);
  // Who was looking at the soft limit is not here to say what it saw.
  if (allowance_ == kUnlimited) allowance_ = Charged() + kFirstLook;
  while (HugeTracker* t = filler_.first_detached()) ReattachOrRetire(t);
  for (HugeRegion* g = regions_.first(); g != nullptr; g = IntrusiveList<HugeRegion>::Next(g))
    g->AbandonReleases();
  if (in_flight_ == HugeLength(0)) return;
  for (HugePageId p; p < allocator_.end(); p += HugeLength(1)) {
    const HugePageRecord* r = map_.Find(p);
    if (r != nullptr && r->state == HugePageState::kInFlight)
      cache_.PutBack({p, HugeLength(1)}, kernel_.CoarseNowNs());
  }
  in_flight_ = HugeLength(0);
}

}  // namespace strata
