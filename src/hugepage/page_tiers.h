// What the parts of the page heap share: the tiers that hold its hugepages, the one lock over them,
// and the accounts of what they hold. PageHeap owns it and passes it to its parts (page_runs.h,
// releaser.h, soft_limit.h, collapser.h), each of which has only its own state; so clang can check
// at each call that the lock is held. Sits in hugepage, above the tiers and below the parts.
//
// Every malloc that needs pages may wait for the lock, so no hold of it grows with the heap:
// candidates hang on lists by their use, and searches stop after so many steps
// (tests/heaps/lock_holds_test.cpp). Under it the kernel is asked only for what is rare, to map a
// chunk, to advise the small heap and what of some 16 hugepages was touched (touch_survey.h), for
// advice on ranges without pages, which others could take meanwhile, and on single hugepages of
// large blocks, some 16 a tick (sparse_blocks.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/cold_frames.h"
#include "hugepage/huge_allocator.h"
#include "hugepage/huge_cache.h"
#include "hugepage/huge_filler.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/placement_group.h"
#include "hugepage/prompt_release.h"
#include "hugepage/region_set.h"
#include "hugepage/thin_use.h"
#include "os/page_kernel.h"

namespace strata {

constexpr uint32_t Seconds(uint64_t ns) { return static_cast<uint32_t>(ns / 1'000'000'000); }

template <PageKernel Kernel>
struct PageTiers {
  PageTiers(Kernel& k, MetadataArena& arena, const typename HugeAllocator<Kernel>::Options& options,
            FillerGroups groups = FillerGroups::kAsSaid, bool prompt_release = false)
      : kernel(k),
        hugepages(options.hugepages),
        trackers(arena, MetadataUse::kHeap),
        map(arena, k.window()),
        allocator(k, map, options),
        cache(map, k.past_gibibyte().raw()),
        filler(arena, groups),
        regions(arena),
        prompt(prompt_release) {}
  PageTiers(const PageTiers&) = delete;
  PageTiers& operator=(const PageTiers&) = delete;

  uint64_t CoarseNow() const { return kernel.CoarseNowNs(); }

  HugePageRecord& RecordOf(PageId p) const STRATA_REQUIRES(lock) {
    HugePageRecord* r = map.Find(HugePageOf(p));
    STRATA_CHECK(r != nullptr);
    return *r;
  }
  // The record of a hugepage of the filler; null for any other.
  HugeTracker* InFiller(HugePageId p) const STRATA_REQUIRES(lock) {
    const HugePageRecord* r = map.Find(p);
    return r != nullptr && r->state == HugePageState::kFiller ? r->tracker : nullptr;
  }

  Pages FreeBacked() const STRATA_REQUIRES(lock) {
    return filler.free_backed() + PagesOf(cache.size()) + regions.free_backed();
  }
  // What the kernel may hold for us now, counting every page handed out as touched.
  Pages Backed() const STRATA_REQUIRES(lock) {
    return used + FreeBacked() + PagesOf(in_flight) + rebuilding;
  }
  // The same without the native pages given back inside runs in use.
  Pages Charged() const STRATA_REQUIRES(lock) {
    return Backed() - Pages(filler.gone_native() / kNativePerPage);
  }

  // Unbacked hugepages up to p, and from p on.
  HugePages FreeBefore(HugePageId p) const STRATA_REQUIRES(lock) {
    if (p == HugePageId()) return HugePages(0);
    const HugePageRecord* r = map.Find(p - HugePages(1));
    return r != nullptr && r->state == HugePageState::kFree ? p - HugePageId(r->first)
                                                            : HugePages(0);
  }
  HugePages FreeBehind(HugePageId p) const STRATA_REQUIRES(lock) {
    const HugePageRecord* r = map.Find(p);
    return r != nullptr && r->state == HugePageState::kFree ? HugePages(r->length) : HugePages(0);
  }

  // Whether one more hugepage may be advised against, or needs no advice.
  bool MayMark() const STRATA_REQUIRES(lock) { return !hugepages || marked < kMarkBudget; }
  // True: the caller advises the kernel against a hugepage here.
  bool Mark(HugePageRecord& record) STRATA_REQUIRES(lock) {
    if (!hugepages || record.no_huge) return false;
    record.no_huge = true;
    ++marked;
    return true;
  }
  void EndThinUse() STRATA_REQUIRES(lock) {
    thin_use.End();
    allocator.EndLeavingSmallHeap();
  }
  // After the kernel was asked for a hugepage.
  void Unmark(HugePageRecord& record) STRATA_REQUIRES(lock) {
    if (record.no_huge) --marked;
    record.no_huge = record.unadvised = false;
  }

  // Whether the kernel was asked for a hugepage there.
  bool IsAdvised(HugePageId p) const STRATA_REQUIRES(lock) {
    return hugepages && !map[p].unadvised && !map[p].no_huge;
  }

  // Hugepages on their way to or from memory, with the lock dropped: in no tier, but counted.
  void Depart(HugeRange r) STRATA_REQUIRES(lock) {
    map.SetState(r, HugePageState::kInFlight);
    in_flight += r.length;
  }
  enum class Memory : uint8_t { kGone, kStays };
  void Arrive(HugeRange r, Memory memory) STRATA_REQUIRES(lock) {
    in_flight -= r.length;
    if (memory == Memory::kGone) {
      allocator.Give(r);
    } else if (STRATA_UNLIKELY(kernel.IsLost(r))) {
      map.SetState(r, HugePageState::kUnmapped);  // for good, in no tier
    } else {
      cache.PutBack(r, CoarseNow());
    }
  }

  // Unbacked hugepages. What is lost is in no tier from now on.
  void GiveMapped(HugeRange r) STRATA_REQUIRES(lock) {
    if (STRATA_LIKELY(!kernel.IsLost(r))) return allocator.Give(r);
    for (HugePageId p = r.first; p < r.end(); p += HugePages(1)) {
      const HugeRange one{p, HugePages(1)};
      if (kernel.IsLost(one)) {
        map.SetState(one, HugePageState::kUnmapped);
      } else {
        allocator.Give(one);
      }
    }
  }

  // A hugepage that left the filler whole and empty.
  void Retire(HugeTracker* t) STRATA_REQUIRES(lock) {
    const HugePageId page = t->page();
    trackers.Delete(t);
    cache.Give({page, HugePages(1)}, CoarseNow());
  }

  // Ends a detachment. A hugepage that is empty and not backed at all leaves the filler for the
  // allocator.
  void ReattachOrRetire(HugeTracker* t) STRATA_REQUIRES(lock) {
    const HugePageId page = t->page();
    if (!t->empty() || t->free_backed() != 0) {
      if (filler.Reattach(t) == HugeFiller::Left::kNothing) Retire(t);
      return;
    }
    filler.Discard(t);
    trackers.Delete(t);
    HugePageRecord& record = map[page];
    if (record.no_huge) {
      // One cheap call on a range without pages, under the lock: afterwards anyone may take the
      // hugepage.
      kernel.AdviseHuge({page, HugePages(1)});
      Unmark(record);
    }
    cache.NoteGone(HugePages(1), CoarseNow());
    GiveMapped({page, HugePages(1)});
  }

  // Left under the hard limit, for those who ask meanwhile, by what is backed that nobody asked
  // for.
  static constexpr HugePages kLeftToOthers{10};
  // Each mark may split a VMA, of which the kernel allows 65,530.
  static constexpr size_t kMarkBudget = 8000;
  static constexpr HugePageId kNoHugePage{SIZE_MAX};

  Kernel& kernel;
  const bool hugepages;  // asked of the kernel at all
  mutable Lock lock{LockRank::kPageHeap};
  RecordPool<HugeTracker> trackers STRATA_GUARDED_BY(lock);
  HugePageMap map STRATA_GUARDED_BY(lock);
  HugeAllocator<Kernel> allocator STRATA_GUARDED_BY(lock);
  HugeCache cache STRATA_GUARDED_BY(lock);
  HugeFiller filler STRATA_GUARDED_BY(lock);
  RegionSet regions STRATA_GUARDED_BY(lock);

  PromptRelease prompt STRATA_GUARDED_BY(lock);
  // A run in flight that its free has yet to give back, without the lock; or empty.
  HugeRange departing STRATA_GUARDED_BY(lock);
  ColdFrames cold STRATA_GUARDED_BY(lock);
  ThinUse thin_use STRATA_GUARDED_BY(lock);
  // Else what begins as single pages would stay so.
  bool rebuilds STRATA_GUARDED_BY(lock) = true;
  Pages used STRATA_GUARDED_BY(lock);              // in runs handed out
  HugePages large STRATA_GUARDED_BY(lock);         // in state kLarge
  HugePages in_flight STRATA_GUARDED_BY(lock);     // in state kInFlight
  size_t marked STRATA_GUARDED_BY(lock) = 0;       // hugepages advised against
  size_t taken_fresh STRATA_GUARDED_BY(lock) = 0;  // hugepages that joined the filler, ever
  // Released pages that the kernel may be backing again: by one rebuild, with the lock dropped.
  Pages rebuilding STRATA_GUARDED_BY(lock);
  size_t moves STRATA_GUARDED_BY(lock) = 0;  // under way, with the lock dropped (page_mover.h)
  // Of a large run, taken apart before, with the lock dropped (sparse_blocks.h).
  HugePageId block_rebuilt STRATA_GUARDED_BY(lock) = kNoHugePage;
};

// Calls f(hugepage, first native page in it, native pages) for each hugepage that r meets.
template <class F>
void ForEachHugePage(NativeRange r, F f) {
  while (r.bytes != 0) {
    const size_t in = r.offset & (kHugePageSize - 1);
    const size_t bytes = std::min(r.bytes, kHugePageSize - in);
    f(HugePageId(r.offset >> kHugePageShift), in >> kNativePageShift, bytes >> kNativePageShift);
    r = {r.offset + bytes, r.bytes - bytes};
  }
}

}  // namespace strata
