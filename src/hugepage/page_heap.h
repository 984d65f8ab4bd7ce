// The back end: hands out runs of 8 KiB pages so that the memory behind them stays in whole
// hugepages (papers §2.1): small runs from the filler, large ones from the huge cache with their
// tails donated to the filler, awkward large ones from regions. Freeing never makes a system call;
// what demand does not want goes back in Tick (page_heap_release.h). One lock; it is dropped around
// every call that gives back or rebuilds, with the pages out of everyone's reach meanwhile. Layer
// above os; the span layer takes from it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/break_policy.h"
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
  size_t hard_limit_bytes = 0;  // of backed memory, as SetHardLimit takes it
};

// What ReleaseInUse did: bytes given back now, and whether the kernel refused any. Ranges in
// hugepages that are not worth breaking are cut to no bytes.
struct InUseRelease {
  size_t bytes = 0;
  bool refused = false;
};

template <PageKernel Kernel>
class PageHeap {
 public:
  PageHeap(Kernel& kernel, MetadataArena& arena, const PageHeapOptions& options)
      : kernel_(kernel),
        options_(options),
        hard_limit_(LimitOf(options.hard_limit_bytes)),
        trackers_(arena, MetadataUse::kHeap),
        regions_pool_(arena, MetadataUse::kHeap),
        map_(arena, kernel.window()),
        allocator_(kernel, map_, {options.hugepages, options.small_heap}),
        cache_(map_),
        filler_(arena),
        demand_({options.busy_short_ms, options.busy_long_ms, options.peak_ms, options.idle_ms}) {}
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  // An empty run when memory is out. Any length; alignment up to 512 hugepages.
  PageRun Take(const PageRequest& request) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return TakeHolding(request);
  }

  // A run from Take, with the length it has now. `dense` is what was asked for; the hugepage knows
  // by itself.
  void Give(PageRange r, bool /*dense*/) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    GiveHolding(r);
  }

  // The same for a caller that guards records of its own with lock(), so that a large block costs
  // one lock. TakeHolding may drop it for a while.
  PageRun TakeHolding(const PageRequest& request) STRATA_REQUIRES(lock_);
  void GiveHolding(PageRange r) STRATA_REQUIRES(lock_);

  // In place; false leaves all as it was. Drops the lock for a while when it grows.
  bool TryGrowHolding(PageRange r, Length new_length) STRATA_REQUIRES(lock_);
  bool TryGrow(PageRange r, Length new_length) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return TryGrowHolding(r, new_length);
  }

  // The tail goes back; new_length is at least one page.
  void ShrinkHolding(PageRange r, Length new_length) STRATA_REQUIRES(lock_);
  void Shrink(PageRange r, Length new_length) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    ShrinkHolding(r, new_length);
  }

  // For LentPages.
  HugeTracker* Lend(uint8_t to) STRATA_EXCLUDES(lock_);
  void TakeBackHolding(HugeTracker* t) STRATA_REQUIRES(lock_);
  // The record of the lent hugepage that holds p. Needs no lock: the entry was written when the
  // hugepage was lent, and is as long as it is.
  HugeTracker* LentTracker(PageId p) const STRATA_NO_TSA { return map_[HugePageOf(p)].tracker; }
  // Whether the hugepage in which a live run lies is lent still. Of a run that was taken from a
  // lent one; for who holds the borrower's lock, without which it can't be returned.
  bool IsLent(PageId p) const STRATA_NO_TSA {
    return map_[HugePageOf(p)].state == HugePageState::kLent;
  }
  // The borrower of a hugepage, 0 if it is not lent now.
  uint8_t LentTo(HugePageId p) const STRATA_EXCLUDES(lock_);

  // Gives back native pages inside runs in use, which their owner knows to be unused and keeps from
  // use (and the runs from being given back) during the call. Sorted. What is given back already,
  // lies outside the filler or in a hugepage that someone else is working on is passed over.
  InUseRelease ReleaseInUse(NativeRange* ranges, size_t n, Program program) STRATA_EXCLUDES(lock_);

  // Before that, so that it knows what breaking a hugepage frees in all: what a look at the spans
  // finds idle. BeginSurvey forgets what the last one found.
  void BeginSurvey() STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    ++survey_;
  }
  void NoteIdle(const NativePages* spans, size_t n) STRATA_EXCLUDES(lock_);
  // When it falls, a survey may find more to give back though nothing changed.
  size_t LeastGainNow(Program program) const STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return LeastGain(program, rested_s_);
  }

  // Pages that will be touched; of those given back so, that ends it. The others don't matter. May
  // look at the soft limit: not with a lock held.
  void NoteReused(const NativePages* spans, size_t n) STRATA_EXCLUDES(lock_);

  // Bytes of a range, which lies inside a run, that are given back so. Nobody else keeps book of
  // it, because a hugepage that is rebuilt has all of its memory again.
  size_t GoneIn(NativeRange r) const STRATA_EXCLUDES(lock_);
  // Grows when memory came back so that its owner may want to give back again.
  uint32_t rebuilt_in_use() const { return rebuilt_in_use_.load(std::memory_order_relaxed); }

  // Whatever demand says: for memory limits and for users who ask. Returns the bytes given back.
  size_t ReleaseNow(size_t bytes) STRATA_EXCLUDES(lock_);

  // About once a second, from the background. calls_rest: nothing was asked of the allocator since
  // the last tick; a program may compute all the same, and then its hugepages are spared. Returns
  // the bytes given back.
  size_t Tick(bool calls_rest, Program program) STRATA_EXCLUDES(lock_);

  // In the child of a fork, after the locks work again: takes back what a thread that exists only
  // in the parent was about to release.
  void RecoverInChild() STRATA_EXCLUDES(lock_);

  // Requests that would make Backed() exceed it fail; 0: none do. What is backed already stays.
  void SetHardLimit(size_t bytes) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    hard_limit_ = LimitOf(bytes);
  }
  size_t hard_limit() const STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return hard_limit_ == kUnlimited ? 0 : BytesOf(hard_limit_);
  }

  // Asks the kernel how far the soft limit is and gives back free pages if it is near: from the
  // background, and when the limit was changed. Growth looks by itself.
  void CheckSoftLimit() STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    LookAtSoftLimit(Length(0));
  }
  // Bytes that should go back and are not the page heap's to give: they lie in caches and spans.
  // Whoever takes them empties those.
  size_t relief_wanted() const { return relief_wanted_.load(std::memory_order_relaxed); }
  size_t TakeReliefWanted() { return relief_wanted_.exchange(0, std::memory_order_relaxed); }

  // The same a moment ago, without the lock: for who asks at each slow call.
  Length used_lately() const { return Length(used_lately_.load(std::memory_order_relaxed)); }
  Length used() const STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return used_;
  }
  Length free_backed() const STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    return FreeBacked();
  }
  PageHeapStats Stats() const STRATA_EXCLUDES(lock_);

  // The pages in use and the free pages with memory behind them of the hugepage that holds p; both
  // 0 where no small runs lie.
  HugePageFill FillOf(HugePageId p) const STRATA_EXCLUDES(lock_);

  // Calls f(HugePageId, used pages, released pages, state, seconds in use) for each mapped hugepage
  // in address order, without the lock: f gets copies, made some hundred at a time. States: r
  // regular, D dense, d donated tail, p partly released, x all free pages released, e empty and
  // broken, g region, L large run, c cached, i being released, u not backed.
  template <class F>
  void VisitHugePages(F f) const STRATA_EXCLUDES(lock_);

  Lock& lock() const STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  static constexpr Length kSmall{128};                        // 1 MiB: the filler grows for these
  static constexpr Length kLargest{512 * kPagesPerHugePage};  // above 1 GiB: never in a region
  static constexpr Length kSlackLimit{8192};    // 64 MiB of tails before a region is opened
  static constexpr size_t kRegionsDropped = 2;  // a tick
  static constexpr size_t kReleaseBatch = 16;   // hugepages out of reach at a time
  static constexpr size_t kMarkBudget =
      8000;  // each mark may split a VMA; the kernel allows 65,530
  static constexpr HugeLength kReleaseChunk{512};
  static constexpr HugeLength kHeadroom{4};  // above a busy program's demand, at least
  static constexpr size_t kCollapseMissing = kNativePerHugePage / 16;  // at most, of a hugepage
  static constexpr Length kCollapseHeap{2048};                         // 16 MiB
  static constexpr size_t kCollapseBatch = 8;           // neighbours out of reach at a time
  static constexpr size_t kCollapseSteps = 1024;        // hugepages looked at in a tick
  static constexpr uint64_t kCollapseNs = 200'000'000;  // a tick: a fifth of one CPU
  static constexpr uint32_t kCollapseAgainS = 300;      // after the kernel refused
  static constexpr int kAttempts = 4;
  static constexpr size_t kInUseBatch = 96;      // ranges of one ReleaseInUse step
  static constexpr size_t kPiecesOfARange = 33;  // a span has at most 64 native pages
  static constexpr Length kUnlimited{SIZE_MAX >> kPageShift};
  static constexpr Length kFirstLook{1024};       // 8 MiB: a small program never reads cgroup files
  static constexpr Length kLeastSoftStep{128};    // 1 MiB
  static constexpr size_t kSoftStepsInHeap = 64;  // a step is this part of what is backed

  // What TakeHugePages got.
  enum class Fresh : uint8_t {
    kUsed,    // backed, with something in it
    kZero,    // may come as a hugepage when it is touched, so all of it counts as backed
    kSparse,  // zero, and near a limit: the last hugepage is to be backed by single pages only
  };

  // Rounded down: one too small for a page allows none.
  static Length LimitOf(size_t bytes) {
    return bytes == 0 ? kUnlimited : Length(bytes >> kPageShift);
  }
  static uint32_t Seconds(uint64_t ns) { return static_cast<uint32_t>(ns / 1'000'000'000); }

  // --- Report (page_heap_report.h)
  struct HugePageView;
  size_t ViewHugePages(HugePageId first, HugeLength n, HugePageView* out) const
      STRATA_REQUIRES(lock_);

  // --- Take and Give (page_heap_runs.h)
  PageRun TakeOnce(const PageRequest& r) STRATA_REQUIRES(lock_);
  PageRun TakeSmall(const PageRequest& r) STRATA_REQUIRES(lock_);
  PageRun TakeFromRegion(Length n) STRATA_REQUIRES(lock_);
  PageRun TakeWhole(const PageRequest& r) STRATA_REQUIRES(lock_);
  // Where the caller stands; small stacks are spared what is deep.
  enum class OnStack : uint8_t { kCallers, kSide };
  HugeRange TakeHugePages(HugeLength n, HugeLength align, Length least, Fresh* kind, OnStack where)
      STRATA_REQUIRES(lock_);
  HugeRange TakeUnbacked(HugeLength n, HugeLength align) STRATA_REQUIRES(lock_);
  bool MakeRoom(Length n) STRATA_REQUIRES(lock_);
  HugeFiller::Broken BrokenFor(Length n) STRATA_REQUIRES(lock_);
  bool AddRegion() STRATA_REQUIRES(lock_);
  HugeTracker* AddTracker(Length least) STRATA_REQUIRES(lock_);
  HugeTracker* AddTrackerHere(Length least) STRATA_REQUIRES(lock_);
  HugeTracker* NewTracker(HugePageId page, Fresh kind) STRATA_REQUIRES(lock_);
  void BeginLarge(HugeRange r) STRATA_REQUIRES(lock_);
  bool DonateTail(PageRange large, Fresh kind) STRATA_REQUIRES(lock_);
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
  size_t ReleasePages(Length target, HugeLength keep_cached, Program program)
      STRATA_REQUIRES(lock_);
  // `idle`: what the survey that has just been made found in it.
  BreakSnapshot SnapshotOf(const HugeTracker& t, size_t idle, Program program) const
      STRATA_REQUIRES(lock_) {
    return {!t.broken, t.free_backed() * kNativePerPage + idle, program, rested_s_};
  }
  // The same for callers on a program's stack.
  size_t ReleaseForRequest(Length target) STRATA_REQUIRES(lock_);
  Length ReleaseFromCache(Length target, HugeLength keep) STRATA_REQUIRES(lock_);
  Length ReleaseFromRegions(Length target) STRATA_REQUIRES(lock_);
  Length ReleaseFromFiller(Length target, Program program) STRATA_REQUIRES(lock_);
  Length ReleaseEmpties() STRATA_REQUIRES(lock_);
  Length ReleaseDetached(HugeTracker* const* trackers, size_t n) STRATA_REQUIRES(lock_);
  InUseRelease ReleaseInHugePage(const NativeRange* ranges, size_t n) STRATA_REQUIRES(lock_);
  // Calls f(hugepage, first native page in it, native pages) for each hugepage that r meets.
  template <class F>
  static void ForEachPart(NativeRange r, F f) {
    while (r.bytes != 0) {
      const size_t in = r.offset & (kHugePageSize - 1);
      const size_t bytes = std::min(r.bytes, kHugePageSize - in);
      f(HugePageId(r.offset >> kHugePageShift), in >> kNativePageShift, bytes >> kNativePageShift);
      r = {r.offset + bytes, r.bytes - bytes};
    }
  }
  void BeginBreaking(HugeTracker* t, Piece* piece) STRATA_REQUIRES(lock_);
  bool ActOn(const Piece& piece, const NativeRange* ranges, size_t n) STRATA_EXCLUDES(lock_);
  void ReattachOrRetire(HugeTracker* t) STRATA_REQUIRES(lock_);
  void DropEmptyRegions() STRATA_REQUIRES(lock_);
  // --- Limits (page_heap_limits.h)
  void LookAtSoftLimit(Length untouched) STRATA_REQUIRES(lock_);
  void LookAndRelease(Length untouched) STRATA_REQUIRES(lock_);
  void NoteGrowth(Length untouched) STRATA_REQUIRES(lock_) {
    if (STRATA_UNLIKELY(Charged() > allowance_)) LookAtSoftLimit(untouched);
  }
  void BackByPages(HugeTracker* t) STRATA_REQUIRES(lock_);
  // --- Collapse (page_heap_collapse.h)
  void CollapseSome(Length wanted) STRATA_REQUIRES(lock_);
  struct CollapseSearch {
    uint32_t now_s;
    size_t steps;  // hugepages that may still be looked at
    Length spare;  // free pages that may be backed again
  };
  struct Neighbours;  // hugepages to rebuild in one call
  static bool IsWorthRebuilding(const HugeTracker& t, const CollapseSearch& s);
  bool AddToCollapse(HugePageId page, CollapseSearch& s, Neighbours& found) STRATA_REQUIRES(lock_);
  HugeTracker* FindForCollapse(CollapseSearch& s) STRATA_REQUIRES(lock_);
  void FindNeighbours(CollapseSearch& s, Neighbours& found) STRATA_REQUIRES(lock_);
  void CollapseAll(const Neighbours& found, uint32_t now_s) STRATA_REQUIRES(lock_);

  HugePageRecord& RecordOf(PageId p) const STRATA_REQUIRES(lock_) {
    HugePageRecord* r = map_.Find(HugePageOf(p));
    STRATA_CHECK(r != nullptr);
    return *r;
  }
  Length FreeBacked() const STRATA_REQUIRES(lock_) {
    return filler_.free_backed() + PagesOf(cache_.size()) + region_backed_ - region_used_;
  }
  // What a working program keeps above its demand.
  static Length HeadroomOf(Length demand) { return std::max(PagesOf(kHeadroom), demand / 32); }
  // What the kernel may hold for us now, counting every page handed out as touched.
  Length Backed() const STRATA_REQUIRES(lock_) {
    return used_ + FreeBacked() + PagesOf(in_flight_);
  }
  // The same without the native pages given back inside runs in use.
  Length Charged() const STRATA_REQUIRES(lock_) {
    return Backed() - Length(filler_.gone_native() / kNativePerPage);
  }
  bool MayMark() const STRATA_REQUIRES(lock_) {
    return !options_.hugepages || marked_ < kMarkBudget;
  }
  void NoteUse() STRATA_REQUIRES(lock_) {
    demand_.Record(used_.raw());
    used_lately_.store(used_.raw(), std::memory_order_relaxed);
  }
  bool MayBack(Length n) STRATA_REQUIRES(lock_) {
    if (STRATA_LIKELY(Backed() + n <= hard_limit_)) return true;
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
  bool limit_hit_ STRATA_GUARDED_BY(lock_) = false;         // by the current TakeOnce
  size_t marked_ STRATA_GUARDED_BY(lock_) = 0;              // hugepages advised against
  Length allowance_ STRATA_GUARDED_BY(lock_) = kFirstLook;  // Charged() beyond it: look again
  bool tight_ STRATA_GUARDED_BY(lock_) = false;             // the soft limit is near
  size_t soft_hits_ STRATA_GUARDED_BY(lock_) = 0;
  size_t hard_failures_ STRATA_GUARDED_BY(lock_) = 0;
  std::atomic<size_t> relief_wanted_{0};
  std::atomic<uint32_t> rebuilt_in_use_{0};
  std::atomic<size_t> used_lately_{0};  // pages; written under lock_
  Length last_demand_ STRATA_GUARDED_BY(lock_);
  size_t released_total_ STRATA_GUARDED_BY(lock_) = 0;
  size_t collapsed_total_ STRATA_GUARDED_BY(lock_) = 0;
  uint32_t survey_ STRATA_GUARDED_BY(lock_) = 1;
  uint32_t rested_s_ STRATA_GUARDED_BY(lock_) = 0;
  uint32_t rests_since_s_ STRATA_GUARDED_BY(lock_) = 0;  // 0: it does not rest
};

}  // namespace strata

#include "hugepage/page_heap_collapse.h"
#include "hugepage/page_heap_lend.h"
#include "hugepage/page_heap_limits.h"
#include "hugepage/page_heap_release.h"
#include "hugepage/page_heap_report.h"
#include "hugepage/page_heap_runs.h"
