// The back end: hands out runs of 8 KiB pages so that the memory behind them stays in whole
// hugepages (papers §2.1): small runs from the filler, large ones from the huge cache with their
// tails donated to the filler, awkward large ones from regions. Freeing never makes a system call;
// what demand does not want goes back in Tick (page_heap_release.h). One lock; it is dropped around
// every call that gives back or rebuilds, with the pages out of everyone's reach meanwhile. Layer
// above os; the span layer takes from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/collapse_pacer.h"
#include "hugepage/demand_tracker.h"
#include "hugepage/huge_allocator.h"
#include "hugepage/huge_cache.h"
#include "hugepage/huge_filler.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/huge_region.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_heap_stats.h"
#include "hugepage/page_run.h"
#include "os/page_kernel.h"

namespace strata {

struct PageHeapOptions {
  bool release = true;  // in Tick; ReleaseNow always does
  uint32_t busy_short_ms = 10'000;
  uint32_t busy_long_ms = 30'000;
  uint32_t peak_ms = 30'000;
  uint32_t idle_ms = 3'000;
  bool hugepages = true;
  HugeLength small_heap{16};    // not asked to be hugepages: below 32 MiB they gain nothing
  size_t hard_limit_bytes = 0;  // of backed memory; 0: none
};

template <PageKernel Kernel>
class PageHeap {
 public:
  PageHeap(Kernel& kernel, MetadataArena& arena, const PageHeapOptions& options)
      : kernel_(kernel),
        options_(options),
        hard_limit_(options.hard_limit_bytes >> kPageShift),
        trackers_(arena),
        regions_pool_(arena),
        map_(arena, kernel.window()),
        allocator_(kernel, map_, {options.hugepages, options.small_heap}),
        cache_(map_),
        filler_(arena),
        demand_({options.busy_short_ms, options.busy_long_ms, options.peak_ms, options.idle_ms}) {}
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  // An empty run when memory is out. Any length; alignment up to 512 hugepages.
  PageRun Take(const PageRequest& request) STRATA_EXCLUDES(lock_);

  // A run from Take, with the length it has now. `dense` is what was asked for; the hugepage knows
  // by itself.
  void Give(PageRange r, bool dense) STRATA_EXCLUDES(lock_);

  // In place; false leaves all as it was.
  bool TryGrow(PageRange r, Length new_length) STRATA_EXCLUDES(lock_);

  // The tail goes back; new_length is at least one page.
  void Shrink(PageRange r, Length new_length) STRATA_EXCLUDES(lock_);

  // Gives back native pages inside runs in use, which their owner knows to be unused and keeps from
  // use (and the runs from being given back) during the call. Sorted. Returns the bytes given back;
  // ranges outside the filler, or in a hugepage that someone else is working on, are passed over.
  size_t ReleaseInUse(const NativeRange* ranges, size_t n) STRATA_EXCLUDES(lock_);

  // Such pages will be touched again.
  void NoteReused(NativeRange r) STRATA_EXCLUDES(lock_);

  // Whatever demand says: for memory limits and for users who ask. Returns the bytes given back.
  size_t ReleaseNow(size_t bytes) STRATA_EXCLUDES(lock_);

  // About once a second, from the background. program_idle: nothing was asked of the allocator
  // since the last tick. Returns the bytes given back.
  size_t Tick(bool program_idle) STRATA_EXCLUDES(lock_);

  // In the child of a fork, after the locks work again: takes back what a thread that exists only
  // in the parent was about to release.
  void RecoverInChild() STRATA_EXCLUDES(lock_);

  void SetHardLimit(size_t bytes) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    hard_limit_ = Length(bytes >> kPageShift);
  }

  Length used() const STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return used_;
  }
  Length free_backed() const STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return FreeBacked();
  }
  PageHeapStats Stats() const STRATA_EXCLUDES(lock_);

  // Calls f(HugePageId, used pages, released pages, state) for each mapped hugepage in address
  // order, with the lock held. States: r regular, D dense, d donated tail, p partly released, x all
  // free pages released, e empty and broken, g region, L large run, c cached, i being released, u
  // not backed.
  template <class F>
  void VisitHugePages(F f) const STRATA_EXCLUDES(lock_);

  Lock& lock() const { return lock_; }

 private:
  static constexpr Length kSmall{128};                        // 1 MiB: the filler grows for these
  static constexpr Length kLargest{512 * kPagesPerHugePage};  // above 1 GiB: never in a region
  static constexpr Length kSlackLimit{8192};   // 64 MiB of tails before a region is opened
  static constexpr size_t kReleaseBatch = 16;  // hugepages out of reach at a time
  static constexpr size_t kMarkBudget =
      8000;  // each mark may split a VMA; the kernel allows 65,530
  static constexpr HugeLength kReleaseChunk{512};
  static constexpr HugeLength kHeadroom{4};     // above a busy program's demand, at least
  static constexpr Length kCollapseUsed{231};   // 90 % of a hugepage
  static constexpr size_t kCollapseGone = 64;   // native pages
  static constexpr Length kCollapseHeap{2048};  // 16 MiB
  static constexpr size_t kCollapseBatch = 4;   // hugepages a tick
  static constexpr uint32_t kCollapseAgainS = 300;
  static constexpr int kAttempts = 4;
  static constexpr size_t kInUseBatch = 64;  // ranges of one ReleaseInUse step

  // --- Take and Give (page_heap_runs.h)
  PageRun TakeOnce(const PageRequest& r) STRATA_REQUIRES(lock_);
  PageRun TakeSmall(const PageRequest& r) STRATA_REQUIRES(lock_);
  PageRun TakeFromRegion(Length n) STRATA_REQUIRES(lock_);
  PageRun TakeWhole(const PageRequest& r) STRATA_REQUIRES(lock_);
  HugeRange TakeHugePages(HugeLength n, HugeLength align, bool* zero) STRATA_REQUIRES(lock_);
  bool MakeRoom(Length n) STRATA_REQUIRES(lock_);
  HugeFiller::Broken BrokenFor(Length n) STRATA_REQUIRES(lock_);
  bool AddRegion() STRATA_REQUIRES(lock_);
  HugeTracker* NewTracker(HugePageId page, bool zero) STRATA_REQUIRES(lock_);
  bool DonateTail(PageRange large, bool zero) STRATA_REQUIRES(lock_);
  void GiveOnce(PageRange r) STRATA_REQUIRES(lock_);
  void GiveToFiller(HugeTracker* t, PageRange r) STRATA_REQUIRES(lock_);
  void GiveLarge(PageRange r) STRATA_REQUIRES(lock_);
  bool GrowOnce(PageRange r, Length new_length) STRATA_REQUIRES(lock_);
  bool GrowOver(PageRange r, Length new_length) STRATA_REQUIRES(lock_);
  bool FreeFrom(HugeRange r) const STRATA_REQUIRES(lock_);
  void ShrinkOnce(PageRange r, Length new_length) STRATA_REQUIRES(lock_);
  void Retire(HugeTracker* t) STRATA_REQUIRES(lock_);

  // --- Release (page_heap_release.h)
  struct Piece;  // one hugepage's part of a release
  size_t ReleasePages(Length target, HugeLength keep_cached) STRATA_REQUIRES(lock_);
  Length ReleaseFromCache(Length target, HugeLength keep) STRATA_REQUIRES(lock_);
  Length ReleaseFromRegions(Length target) STRATA_REQUIRES(lock_);
  Length ReleaseFromFiller(Length target) STRATA_REQUIRES(lock_);
  Length ReleaseEmpties() STRATA_REQUIRES(lock_);
  Length ReleaseDetached(HugeTracker* const* trackers, size_t n) STRATA_REQUIRES(lock_);
  size_t ReleaseInHugePage(const NativeRange* ranges, size_t n) STRATA_REQUIRES(lock_);
  void BeginBreaking(HugeTracker* t, Piece* piece) STRATA_REQUIRES(lock_);
  bool ActOn(const Piece& piece, const NativeRange* ranges, size_t n) STRATA_EXCLUDES(lock_);
  void ReattachOrRetire(HugeTracker* t) STRATA_REQUIRES(lock_);
  void DropEmptyRegions() STRATA_REQUIRES(lock_);
  // --- Collapse (page_heap_collapse.h)
  void CollapseSome(uint64_t now_ns, Length wanted) STRATA_REQUIRES(lock_);
  bool CollapseOne(HugeTracker* t) STRATA_REQUIRES(lock_);
  size_t FindForCollapse(HugeTracker** out, uint32_t now_s, Length spare) STRATA_REQUIRES(lock_);

  HugePageRecord& RecordOf(PageId p) const STRATA_REQUIRES(lock_) {
    HugePageRecord* r = map_.Find(HugePageOf(p));
    STRATA_CHECK(r != nullptr);
    return *r;
  }
  Length FreeBacked() const STRATA_REQUIRES(lock_) {
    return filler_.free_backed() + PagesOf(cache_.size()) + region_backed_ - region_used_;
  }
  // What the kernel may hold for us now, counting every page handed out as touched.
  Length Backed() const STRATA_REQUIRES(lock_) {
    return used_ + FreeBacked() + PagesOf(in_flight_);
  }
  bool MayBack(Length n) STRATA_REQUIRES(lock_) {
    if (hard_limit_ == Length(0) || Backed() + n <= hard_limit_) return true;
    limit_hit_ = true;
    return false;
  }

  Kernel& kernel_;
  const PageHeapOptions options_;
  mutable Lock lock_{LockRank::kPageHeap};
  Length hard_limit_ STRATA_GUARDED_BY(lock_);
  RecordPool<HugeTracker> trackers_ STRATA_GUARDED_BY(lock_);
  RecordPool<HugeRegion> regions_pool_ STRATA_GUARDED_BY(lock_);
  HugePageMap map_ STRATA_GUARDED_BY(lock_);
  HugeAllocator<Kernel> allocator_ STRATA_GUARDED_BY(lock_);
  HugeCache cache_ STRATA_GUARDED_BY(lock_);
  HugeFiller filler_ STRATA_GUARDED_BY(lock_);
  IntrusiveList<HugeRegion> regions_ STRATA_GUARDED_BY(lock_);
  DemandTracker demand_ STRATA_GUARDED_BY(lock_);
  CollapsePacer collapse_pacer_ STRATA_GUARDED_BY(lock_);

  Length used_ STRATA_GUARDED_BY(lock_);           // in runs handed out
  HugeLength large_ STRATA_GUARDED_BY(lock_);      // in state kLarge
  HugeLength in_flight_ STRATA_GUARDED_BY(lock_);  // in state kInFlight
  Length region_used_ STRATA_GUARDED_BY(lock_);    // over all regions
  Length region_backed_ STRATA_GUARDED_BY(lock_);
  bool limit_hit_ STRATA_GUARDED_BY(lock_) = false;  // by the current TakeOnce
  size_t marked_ STRATA_GUARDED_BY(lock_) = 0;       // hugepages advised against
  Length last_demand_ STRATA_GUARDED_BY(lock_);
  size_t released_total_ STRATA_GUARDED_BY(lock_) = 0;
  size_t collapsed_total_ STRATA_GUARDED_BY(lock_) = 0;
};

}  // namespace strata

#include "hugepage/page_heap_collapse.h"
#include "hugepage/page_heap_release.h"
#include "hugepage/page_heap_report.h"
#include "hugepage/page_heap_runs.h"
