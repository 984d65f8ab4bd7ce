// Gives memory back (Hunter et al., OSDI 2021, memory release; Maas et al., ISMM 2021): which free
// pages go first, and native pages inside runs in use that their owners know to be unused. Each
// step takes its pages out of everyone's reach under the page heap's lock, drops the lock for the
// kernel's work, and puts them back; a hugepage is broken only where break_policy.h finds it worth
// it. Sits in hugepage; the page heap's lock guards it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/break_piece.h"
#include "hugepage/break_policy.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_run.h"
#include "hugepage/page_tiers.h"
#include "os/page_kernel.h"

namespace strata {

// What ReleaseInUse did: bytes given back now, and whether the kernel refused any. Ranges in
// hugepages that are not worth breaking are cut to no bytes.
struct InUseRelease {
  size_t bytes = 0;
  bool refused = false;
};

template <PageKernel Kernel>
class Releaser {
 public:
  using Tiers = PageTiers<Kernel>;

  // At each tick, so that a long rest can be told from a short one.
  void NoteProgram(Program program, uint32_t now_s);
  // Native pages that breaking a whole hugepage must free at least, of one that has stood for as
  // long as the program rests.
  size_t LeastGainNow(Program program) const {
    return LeastGain(program, program == Program::kRests ? rested_s_ : kStoodLong);
  }

  // Empty hugepages that are broken: nothing is to be decided about them.
  Pages ReleaseEmpties(Tiers& t) STRATA_REQUIRES(t.lock);
  // Free pages. Temeraire's order: the cache, regions, and only then pages of hugepages in use.
  // The cache keeps so many while regions have anything to give.
  Pages Release(Tiers& t, Pages target, HugePages keep_cached, Program program)
      STRATA_REQUIRES(t.lock);
  // A large run whose free says so.
  Pages ReleaseDeparting(Tiers& t) STRATA_REQUIRES(t.lock);
  // False: there was none.
  bool DropEmptyRegions(Tiers& t) STRATA_REQUIRES(t.lock);

  // Native pages inside runs in use; see PageHeap.
  InUseRelease ReleaseInUse(Tiers& t, NativeRange* ranges, size_t n, Program program)
      STRATA_REQUIRES(t.lock);
  void BeginSurvey() { ++survey_; }
  void NoteIdle(Tiers& t, const NativePages* spans, size_t n) STRATA_REQUIRES(t.lock);
  // Returns how many native pages had been given back.
  size_t NoteReused(Tiers& t, const NativePages* spans, size_t n) STRATA_REQUIRES(t.lock);

  // In the child of a fork: takes back what a thread of the parent was about to release.
  void Recover(Tiers& t) STRATA_REQUIRES(t.lock);

  size_t released_total() const { return released_total_; }  // bytes, ever

 private:
  static constexpr size_t kRegionsDropped = 2;  // a tick
  static constexpr size_t kBatch = 16;          // hugepages out of reach at a time
  static constexpr HugePages kChunk{512};
  static constexpr size_t kInUseBatch = 96;      // ranges of one ReleaseInUse step
  static constexpr size_t kPiecesOfARange = 33;  // a span has at most 64 native pages

  // `idle`: what the survey that has just been made found in it.
  static BreakSnapshot SnapshotOf(const Tiers& t, const HugeTracker& tracker, size_t idle,
                                  Program program) STRATA_REQUIRES(t.lock) {
    return {!tracker.broken, tracker.free_backed() * kNativePerPage + idle, program,
            t.filler.StoodFor(tracker)};
  }

  Pages ReleaseFromCache(Tiers& t, Pages target, HugePages keep) STRATA_REQUIRES(t.lock);
  Pages ReleaseFromRegions(Tiers& t, Pages target) STRATA_REQUIRES(t.lock);
  Pages ReleaseFromFiller(Tiers& t, Pages target, Program program) STRATA_REQUIRES(t.lock);
  Pages ReleaseDetached(Tiers& t, HugeTracker* const* trackers, size_t n) STRATA_REQUIRES(t.lock);
  void DropRegion(Tiers& t, HugeRegion* g) STRATA_REQUIRES(t.lock);
  InUseRelease ReleaseInHugePage(Tiers& t, const NativeRange* ranges, size_t n)
      STRATA_REQUIRES(t.lock);

  size_t released_total_ = 0;
  uint32_t survey_ = 1;
  uint32_t rested_s_ = 0;
  uint32_t rests_since_s_ = 0;  // 0: it does not rest
};

template <PageKernel Kernel>
void Releaser<Kernel>::NoteProgram(Program program, uint32_t now_s) {
  if (program != Program::kRests) {
    rests_since_s_ = rested_s_ = 0;
  } else if (rests_since_s_ == 0) {
    rests_since_s_ = now_s;
  } else {
    rested_s_ = now_s - rests_since_s_;
  }
}

template <PageKernel Kernel>
Pages Releaser<Kernel>::Release(Tiers& t, Pages target, HugePages keep_cached, Program program) {
  Pages released = ReleaseDeparting(t);
  released += ReleaseEmpties(t);
  if (released < target) released += ReleaseFromCache(t, target - released, keep_cached);
  if (released < target) released += ReleaseFromRegions(t, target - released);
  if (released < target && keep_cached > HugePages(0)) {
    released += ReleaseFromCache(t, target - released, HugePages(0));
  }
  if (released < target) released += ReleaseFromFiller(t, target - released, program);
  return released;
}

template <PageKernel Kernel>
Pages Releaser<Kernel>::ReleaseFromCache(Tiers& t, Pages target, HugePages keep) {
  Pages released;
  while (released < target && t.cache.size() > keep) {
    const HugePages most = std::min({HugeCeil(target - released), t.cache.size() - keep, kChunk});
    const HugeRange r = t.cache.TakeForRelease(most, t.CoarseNow());
    t.Depart(r);
    const NativeRange bytes{OffsetOf(r.first), BytesOf(r.length)};
    t.lock.Release();
    const bool ok = t.kernel.Release(&bytes, 1);
    t.lock.Acquire();
    t.Arrive(r, ok ? Tiers::Memory::kGone : Tiers::Memory::kStays);
    if (!ok) break;
    released += PagesOf(r.length);
    released_total_ += bytes.bytes;
  }
  return released;
}

template <PageKernel Kernel>
Pages Releaser<Kernel>::ReleaseDeparting(Tiers& t) {
  HugeRange r = t.departing;  // empty where another thread was here
  t.departing = {};
  Pages released;
  while (!r.empty()) {
    const HugeRange now{r.first, std::min(r.length, kChunk)};
    const NativeRange bytes{OffsetOf(now.first), BytesOf(now.length)};
    t.lock.Release();
    const bool ok = t.kernel.Release(&bytes, 1);
    t.lock.Acquire();
    if (!ok) {
      t.Arrive(r, Tiers::Memory::kStays);
      break;
    }
    t.Arrive(now, Tiers::Memory::kGone);
    r = {now.end(), r.length - now.length};
    released += PagesOf(now.length);
    released_total_ += bytes.bytes;
  }
  return released;
}

template <PageKernel Kernel>
Pages Releaser<Kernel>::ReleaseFromRegions(Tiers& t, Pages target) {
  Pages released;
  for (HugeRegion* g = t.regions.first(); g != nullptr; g = RegionSet::Next(g)) {
    while (released < target) {
      const HugeRange r = g->DetachForRelease(HugeCeil(target - released));
      if (r.empty()) break;
      const NativeRange bytes{OffsetOf(r.first), BytesOf(r.length)};
      t.lock.Release();
      const bool ok = t.kernel.Release(&bytes, 1);
      t.lock.Acquire();
      using Result = HugeRegion::ReleaseResult;
      const bool lost = !ok && STRATA_UNLIKELY(t.kernel.IsLost(r));
      t.regions.FinishRelease(g, r, ok ? Result::kDone : lost ? Result::kLost : Result::kRefused);
      if (!ok) return released;
      released += PagesOf(r.length);
      released_total_ += bytes.bytes;
    }
  }
  return released;
}

template <PageKernel Kernel>
Pages Releaser<Kernel>::ReleaseFromFiller(Tiers& t, Pages target, Program program) {
  Pages released;
  while (released < target) {
    HugeTracker* batch[kBatch];
    const size_t n =
        t.filler.DetachForRelease(batch, kBatch, [&](const HugeTracker& tracker) STRATA_NO_TSA {
          return IsWorthBreaking(SnapshotOf(t, tracker, 0, program));
        });
    size_t enough = 0;  // the batch is in order of preference: put back what is not needed
    for (Pages free; enough < n && released + free < target; ++enough)
      free += Pages(batch[enough]->free_backed());
    for (size_t i = enough; i < n; ++i) t.ReattachOrRetire(batch[i]);
    const Pages now = ReleaseDetached(t, batch, enough);
    if (now == Pages(0)) break;
    released += now;
  }
  return released;
}

template <PageKernel Kernel>
Pages Releaser<Kernel>::ReleaseEmpties(Tiers& t) {
  Pages released;
  while (t.filler.has_empties()) {
    HugeTracker* batch[kBatch];
    const size_t n = t.filler.DetachEmpties(batch, kBatch);
    size_t unreleased = 0;
    for (size_t i = 0; i < n; ++i) unreleased += batch[i]->free_backed();
    const Pages now = ReleaseDetached(t, batch, n);
    released += now;
    if (now < Pages(unreleased)) break;  // refused
  }
  return released;
}

// Gives back all free pages of detached hugepages and attaches them again; those left empty and all
// released go back to the allocator.
template <PageKernel Kernel>
Pages Releaser<Kernel>::ReleaseDetached(Tiers& t, HugeTracker* const* trackers, size_t n) {
  BreakPiece pieces[kBatch];
  bool done[kBatch];
  STRATA_DCHECK(n <= kBatch);
  const size_t whole = std::max(t.kernel.page_bytes(), kPageSize);
  for (size_t i = 0; i < n; ++i) {
    pieces[i].pages = whole == kPageSize ? trackers[i]->FreeBacked()
                                         : trackers[i]->FreeBackedIn(whole / kPageSize);
    if (pieces[i].pages.Count() != 0) BeginBreaking(t, trackers[i], &pieces[i]);
  }
  t.lock.Release();
  for (size_t i = 0; i < n; ++i) {
    done[i] = false;
    if (pieces[i].pages.Count() == 0) continue;
    NativeRange ranges[kPagesPerHugePage / 2];
    size_t count = 0;
    const size_t base = OffsetOf(pieces[i].page);
    pieces[i].pages.ForRuns([&](size_t at, size_t length) {
      const size_t from = RoundDown(base + BytesOf(Pages(at)), whole);
      ranges[count++] = {from, RoundUp(base + BytesOf(Pages(at + length)), whole) - from};
    });
    done[i] = Break(t, pieces[i], ranges, count);
  }
  t.lock.Acquire();
  Pages released;
  for (size_t i = 0; i < n; ++i) {
    HugeTracker* tracker = trackers[i];
    // What is lost has gone too; it was all of a hugepage.
    if (done[i] || t.kernel.IsLost({tracker->page(), HugePages(1)})) {
      const Pages pages(pieces[i].pages.Count());
      t.filler.Change(tracker, [&] { tracker->NoteReleased(pieces[i].pages); });
      tracker->split |= pieces[i].split;
      released += pages;
    }
    t.ReattachOrRetire(tracker);
  }
  released_total_ += BytesOf(released);
  return released;
}

// A region without runs becomes single hugepages again.
template <PageKernel Kernel>
bool Releaser<Kernel>::DropEmptyRegions(Tiers& t) {
  size_t dropped = 0;
  for (HugeRegion* g = t.regions.first(); g != nullptr && dropped < kRegionsDropped;) {
    HugeRegion* next = RegionSet::Next(g);
    if (g->used() == Pages(0) && !g->busy()) {
      ++dropped;
      DropRegion(t, g);
    }
    g = next;
  }
  return dropped != 0;
}

template <PageKernel Kernel>
void Releaser<Kernel>::DropRegion(Tiers& t, HugeRegion* g) {
  const HugeRange all = g->range();
  t.regions.Remove(g);
  for (HugeRange r{all.first, HugePages(0)}; r.first < all.end(); r = {r.end(), HugePages(0)}) {
    const bool backed = g->backed(r.first);
    while (r.end() < all.end() && g->backed(r.end()) == backed) r.length += HugePages(1);
    if (backed) {
      t.cache.PutBack(r, t.CoarseNow());
    } else {
      t.allocator.Give(r);
    }
  }
  t.regions.Delete(g);
}

template <PageKernel Kernel>
void Releaser<Kernel>::NoteIdle(Tiers& t, const NativePages* spans, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const size_t natives = static_cast<size_t>(64 - std::countl_zero(spans[i].pages));
    size_t seen = 0;
    ForEachHugePage({spans[i].offset, natives * kNativePageSize}, [&](HugePageId page, size_t,
                                                                      size_t native) STRATA_NO_TSA {
      const uint64_t part = spans[i].pages >> seen;
      const uint64_t mask = native >= 64 ? ~uint64_t{0} : (uint64_t{1} << native) - 1;
      seen += native;
      HugeTracker* tracker = t.InFiller(page);
      if (tracker == nullptr) return;
      tracker->NoteIdle(static_cast<size_t>(std::popcount(part & mask)), survey_);
    });
  }
}

template <PageKernel Kernel>
InUseRelease Releaser<Kernel>::ReleaseInUse(Tiers& t, NativeRange* ranges, size_t n,
                                            Program program) {
  InUseRelease result;
  // The idle native pages of a span are no whole pages of a kernel whose pages are larger.
  if (t.kernel.page_bytes() != kNativePageSize) {
    for (size_t i = 0; i < n; ++i) ranges[i].bytes = 0;
    return result;
  }
  NativeRange batch[kInUseBatch];  // all in one hugepage
  size_t count = 0;
  const auto flush = [&]() STRATA_NO_TSA {
    if (count == 0) return;
    const InUseRelease part = ReleaseInHugePage(t, batch, count);
    result.bytes += part.bytes;
    result.refused |= part.refused;
    count = 0;
  };
  for (size_t i = 0; i < n; ++i) {
    ForEachHugePage(ranges[i], [&](HugePageId page, size_t at, size_t native) STRATA_NO_TSA {
      if (count != 0 && batch[0].offset >> kHugePageShift != page.raw()) flush();
      const HugeTracker* tracker = t.InFiller(page);
      if (tracker == nullptr) return;
      // A run of the filler lies in one hugepage, so nothing of the range was taken yet.
      if (!IsWorthBreaking(SnapshotOf(t, *tracker, tracker->IdleAt(survey_), program))) {
        ranges[i].bytes = 0;
        return;
      }
      tracker->ForNotGone(at, native, [&](size_t from, size_t length) {
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
InUseRelease Releaser<Kernel>::ReleaseInHugePage(Tiers& t, const NativeRange* ranges, size_t n) {
  const HugePageId page(ranges[0].offset >> kHugePageShift);
  HugeTracker* tracker = t.InFiller(page);
  if (tracker == nullptr || tracker->detached || tracker->empty()) return {};
  t.filler.Detach(tracker);
  size_t bytes = 0;
  t.filler.Change(tracker, [&] {
    for (size_t i = 0; i < n; ++i) {
      const size_t at = (ranges[i].offset - OffsetOf(page)) >> kNativePageShift;
      tracker->NoteGone(at, ranges[i].bytes >> kNativePageShift);
      bytes += ranges[i].bytes;
    }
  });
  BreakPiece piece;
  BeginBreaking(t, tracker, &piece);
  // Where nothing in use stays, a free page may stand for it: none is released here.
  if (piece.used.bytes == 0 && tracker->free_backed() != 0) {
    const size_t stays = tracker->FreeBacked().NextSet(0);
    piece.used = {OffsetOf(tracker->PageAt(stays)), kNativePageSize};
    piece.split = !tracker->split;
  }
  t.lock.Release();
  const bool ok = Break(t, piece, ranges, n);
  t.lock.Acquire();
  if (ok) {
    tracker->split |= piece.split;
  } else {
    bytes = 0;
    t.filler.Change(tracker, [&] {
      for (size_t i = 0; i < n; ++i) {
        const size_t at = (ranges[i].offset - OffsetOf(page)) >> kNativePageShift;
        tracker->NoteReused(at, ranges[i].bytes >> kNativePageShift);
      }
    });
  }
  t.ReattachOrRetire(tracker);
  return {bytes, !ok};
}

template <PageKernel Kernel>
size_t Releaser<Kernel>::NoteReused(Tiers& t, const NativePages* spans, size_t n) {
  const size_t gone = t.filler.gone_native();
  for (size_t i = 0; i < n; ++i) {
    for (uint64_t left = spans[i].pages; left != 0; left &= left - 1) {
      const size_t native =
          (spans[i].offset >> kNativePageShift) + static_cast<size_t>(std::countr_zero(left));
      HugeTracker* tracker = t.InFiller(HugePageId(native / kNativePerHugePage));
      if (tracker == nullptr || tracker->gone() == 0) continue;
      t.filler.Change(tracker, [&] { tracker->NoteReused(native % kNativePerHugePage, 1); });
      t.filler.NoteTouched(tracker);
    }
  }
  return gone - t.filler.gone_native();
}

template <PageKernel Kernel>
void Releaser<Kernel>::Recover(Tiers& t) {
  while (HugeTracker* tracker = t.filler.first_detached()) {
    if (STRATA_UNLIKELY(t.kernel.IsLost({tracker->page(), HugePages(1)})))
      t.filler.Change(tracker, [tracker] { tracker->NoteReleased(tracker->FreeBacked()); });
    t.ReattachOrRetire(tracker);
  }
  using Result = HugeRegion::ReleaseResult;
  for (HugeRegion* g = t.regions.first(); g != nullptr; g = RegionSet::Next(g)) {
    for (HugeRange r = g->FirstBusy(); !r.empty(); r = g->FirstBusy())
      t.regions.FinishRelease(g, r, t.kernel.IsLost(r) ? Result::kLost : Result::kRefused);
  }
  t.departing = {};
  if (t.in_flight == HugePages(0)) return;
  for (HugePageId p; p < t.allocator.end(); p += HugePages(1)) {
    const HugePageRecord* r = t.map.Find(p);
    if (r != nullptr && r->state == HugePageState::kInFlight)
      t.Arrive({p, HugePages(1)}, Tiers::Memory::kStays);
  }
}

}  // namespace strata
