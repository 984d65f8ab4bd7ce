// Packs runs of up to a hugepage into hugepages (Temeraire, Hunter et al., OSDI 2021, HugeFiller):
// fullest regular hugepages first, then donated tails, then those already broken. Each group of
// runs (placement_group.h) has hugepages of its own; as dense spans may be longer than a page,
// their hugepages are ranked by room as the others are, not by allocations alone. Decides only: its
// owner, the page heap, brings hugepages and talks to the kernel. The owner's lock guards it.
#pragma once

#include <cstddef>

#include "base/intrusive_list.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_run.h"
#include "hugepage/placement_group.h"
#include "hugepage/tracker_lists.h"

namespace strata {

class HugeFiller {
 public:
  // May runs land in pages that the kernel must back again?
  enum class Broken : bool { kAvoid, kAllow };

  explicit HugeFiller(MetadataArena& arena, FillerGroups groups = FillerGroups::kAsSaid)
      : groups_(groups), lists_(arena) {}

  bool Prepare() { return lists_.Prepare(); }

  Pages used() const { return Pages(used_); }
  Pages released() const { return Pages(released_); }  // free pages given back
  Pages free_backed() const { return Pages(hugepages_ * kPagesPerHugePage - used_ - released_); }
  size_t gone_native() const { return gone_; }  // native pages given back inside runs in use
  Pages untouched() const { return Pages(untouched_); }  // of free_backed(): never written
  size_t hugepages() const { return hugepages_; }
  size_t count(TrackerLists::Kind kind) const { return lists_.count(kind); }
  bool has_empties() const { return !empties_.empty(); }
  // Counts so many of them and no more.
  HugePages Empties(HugePages most) const {
    HugePages n;
    for (const HugeTracker* t = empties_.first(); t != nullptr && n < most;
         t = IntrusiveList<HugeTracker>::Next(t))
      n += HugePages(1);
    return n;
  }

  // Once a second. For how many whole ticks a hugepage has got no fuller. That it got emptier
  // makes it no younger: where blocks go all the time, it would never be old.
  void EndTick() { ++tick_; }
  uint32_t StoodFor(const HugeTracker& t) const { return tick_ - t.filled(); }
  // The program will touch what was given back inside its runs.
  void NoteTouched(HugeTracker* t) { t->NoteFilled(tick_); }

  // A run in a hugepage of its group that is here already; empty when none fits. Out of line, like
  // the two below: who goes on to a fresh hugepage is deep in a stack that may be small, and should
  // not carry their locals along.
  STRATA_NOINLINE PageRun TryTake(const PageRequest& r, Broken broken) {
    HugeTracker* t = Find(GroupFor(r), RoomFor(r), broken);
    return t == nullptr ? PageRun{} : TakeIn(t, r);
  }

  // The same in a hugepage of another group, when there is no other memory.
  STRATA_NOINLINE PageRun TryTakeElsewhere(const PageRequest& r, Broken broken) {
    for (const PlacementGroup group : kPlacementGroups) {
      if (group == GroupFor(r)) continue;
      if (HugeTracker* t = Find(group, RoomFor(r), broken)) return TakeIn(t, r);
    }
    return {};
  }

  // Adds a hugepage and takes a run that fits from it.
  STRATA_NOINLINE PageRun Contribute(HugeTracker* t, const PageRequest& r) {
    t->group = GroupFor(r);
    ++hugepages_;
    const PageRun run = TakePages(t, r);
    AddTotals(*t);
    lists_.Add(t);
    return run;
  }

  // Adds a hugepage of which a large run holds the first `head` pages.
  void ContributeTail(HugeTracker* t, Pages head) {
    t->TakeAt(0, head.raw());
    t->NoteFilled(tick_);
    t->group = GroupOf({}, groups_);
    t->donated = true;
    t->donated_head = static_cast<uint16_t>(head.raw());
    slack_ += kPagesPerHugePage - head.raw();
    ++hugepages_;
    AddTotals(*t);
    lists_.Add(t);
  }

  // Adds a hugepage that holds runs already.
  void Adopt(HugeTracker* t) {
    ++hugepages_;
    t->NoteFilled(tick_);
    AddTotals(*t);
    lists_.Add(t);
  }

  // Adds one that is broken and empty: its remains are to be released.
  void AdoptEmpty(HugeTracker* t) {
    ++hugepages_;
    AddTotals(*t);
    empties_.PushBack(t);
  }

  // Takes a whole hugepage out, with all that lies in it; null when there is none left.
  HugeTracker* RemoveAny() {
    for (const PlacementGroup group : kPlacementGroups) {
      HugeTracker* t =
          lists_.FindIn({TrackerLists::kRegular, group}, [](const HugeTracker&) { return true; });
      if (t == nullptr) continue;
      Forget(t);
      return t;
    }
    return nullptr;
  }

  enum class Left : uint8_t { kSome, kNothing };

  // kNothing: the hugepage is empty, whole and off all lists, and the caller's now. A broken one
  // stays here until its remains are released.
  Left Give(HugeTracker* t, PageRange r) {
    const size_t at = t->OffsetIn(r.first);
    DropTotals(*t);
    if (at == 0 && t->donated_head != 0) {
      slack_ -= kPagesPerHugePage - t->donated_head;
      t->abandoned = t->donated_head;
      abandoned_ += t->abandoned;
      t->donated_head = 0;
    }
    t->Give(at, r.length.raw());
    AddTotals(*t);
    return t->detached ? Left::kSome : Settle(t);
  }

  bool TryGrow(HugeTracker* t, PageRange r, Pages new_length) {
    if (t->detached) return false;
    const size_t at = t->OffsetIn(r.first);
    DropTotals(*t);
    const bool grown = t->TryGrow(at, r.length.raw(), new_length.raw());
    if (grown && at == 0 && t->donated_head != 0) SetHead(t, new_length);
    if (grown) t->NoteFilled(tick_);
    AddTotals(*t);
    lists_.Update(t);
    return grown;
  }

  void Shrink(HugeTracker* t, PageRange r, Pages new_length) {
    const size_t at = t->OffsetIn(r.first);
    DropTotals(*t);
    t->Shrink(at, r.length.raw(), new_length.raw());
    if (at == 0 && t->donated_head != 0) SetHead(t, new_length);
    AddTotals(*t);
    if (!t->detached) lists_.Update(t);
  }

  // Takes the hugepage of which only the donated head is used out again, for the large run to grow
  // over.
  void TakeBack(HugeTracker* t) {
    STRATA_DCHECK(t->used() == t->donated_head && !t->detached);
    SetHead(t, kPagesInHugePage);
    Forget(t);
  }

  // Pages of hugepages that end large runs, beyond those runs; and of runs that went and left such
  // behind.
  Pages slack() const { return Pages(slack_); }
  Pages abandoned() const { return Pages(abandoned_); }

  // --- Release, collapse: a hugepage is detached, so that nothing is taken from it while the lock
  // is dropped.

  // Up to `max` hugepages that `accept` finds worth it and whose release breaks least: broken ones
  // first, then those with the fewest used pages, as far as that can be told without looking at
  // all.
  template <class F>
  size_t DetachForRelease(HugeTracker** out, size_t max, F accept) {
    size_t n = 0, looks = 0, rank = 0;
    for (const TrackerLists::Sort sort : {TrackerLists::kBroken, TrackerLists::kWhole}) {
      lists_.ForRanks(sort, [&](HugeTracker* t, size_t rank_of_t) {
        if (rank_of_t >= rank + kNumPlacementGroups && n == max) return false;  // the rest is worse
        rank = rank_of_t;
        if (accept(*t)) n = KeepFewestUsed(t, out, n, max);
        return ++looks < kMostLooks;
      });
      if (n != 0) break;
      looks = rank = 0;
    }
    for (size_t i = 0; i < n; ++i) Detach(out[i]);
    return n;
  }

  // Empty hugepages that are broken, to be released as a whole.
  size_t DetachEmpties(HugeTracker** out, size_t max) {
    size_t n = 0;
    while (n < max && !empties_.empty()) {
      HugeTracker* t = out[n++] = empties_.PopFront();
      t->detached = true;
      detached_.PushBack(t);
    }
    return n;
  }

  // An empty broken hugepage back into use, when there is no other memory.
  PageRun TakeFromEmpties(const PageRequest& r) {
    HugeTracker* t = empties_.PopFront();
    if (t == nullptr) return {};
    t->group = GroupFor(r);
    DropTotals(*t);
    const PageRun run = TakePages(t, r);
    AddTotals(*t);
    lists_.Add(t);
    return run;
  }

  void Detach(HugeTracker* t) {
    lists_.Remove(t);
    t->detached = true;
    detached_.PushBack(t);
  }

  // kNothing as for Give: the hugepage became empty meanwhile.
  Left Reattach(HugeTracker* t) {
    detached_.Remove(t);
    t->detached = false;
    if (!t->empty()) {
      lists_.Add(t);
      return Left::kSome;
    }
    return SettleEmpty(t);
  }

  // Drops an empty, detached hugepage.
  void Discard(HugeTracker* t) {
    detached_.Remove(t);
    t->detached = false;
    DropTotals(*t);
    --hugepages_;
    abandoned_ -= t->abandoned;
  }

  // The first of the detached ones: only the child of a fork asks, whose parent's releasing thread
  // is not here.
  HugeTracker* first_detached() const { return detached_.first(); }

  // Changes of state of a hugepage, which may be detached.
  template <class F>
  void Change(HugeTracker* t, F f) {
    DropTotals(*t);
    f();
    AddTotals(*t);
    if (t->list != HugeTracker::kNoList) lists_.Update(t);
  }

  // Calls f on each tracker that holds runs and is not detached.
  template <class F>
  void ForEach(F f) const {
    using L = TrackerLists;
    for (const PlacementGroup group : kPlacementGroups) {
      for (const L::State state : {L::kRegular, L::kDonated, L::kPartial, L::kReleased})
        lists_.ForEach({state, group}, f);
    }
  }
  template <class F>
  void Look(TrackerLists::Kind kind, uint32_t round, size_t& steps, F f) {
    lists_.Look(kind, round, steps, f);
  }

 private:
  static constexpr size_t kMostLooks = 64;  // at candidates, for one batch

  PlacementGroup GroupFor(const PageRequest& r) const { return GroupOf(r.placement, groups_); }
  static size_t RoomFor(const PageRequest& r) { return r.length.raw() + r.align.raw() - 1; }

  HugeTracker* Find(PlacementGroup group, size_t n, Broken broken) const {
    using L = TrackerLists;
    HugeTracker* t = lists_.Find({L::kRegular, group}, n);
    if (t == nullptr) t = lists_.Find({L::kDonated, group}, n);
    if (t != nullptr || broken == Broken::kAvoid) return t;
    t = lists_.Find({L::kPartial, group}, n);
    return t != nullptr ? t : lists_.Find({L::kReleased, group}, n);
  }

  PageRun TakeIn(HugeTracker* t, const PageRequest& r) {
    DropTotals(*t);
    const PageRun run = TakePages(t, r);
    AddTotals(*t);
    lists_.Update(t);
    return run;
  }

  PageRun TakePages(HugeTracker* t, const PageRequest& r) const {
    const HugeTracker::Taken taken = t->Take(r.length.raw(), r.align.raw());
    t->NoteFilled(tick_);
    t->donated = false;
    return {{t->PageAt(taken.at), r.length}, taken.zeroed};
  }

  Left Settle(HugeTracker* t) {
    if (!t->empty()) {
      lists_.Update(t);
      return Left::kSome;
    }
    lists_.Remove(t);
    return SettleEmpty(t);
  }

  Left SettleEmpty(HugeTracker* t) {
    if (t->broken) {
      empties_.PushBack(t);
      return Left::kSome;
    }
    DropTotals(*t);
    --hugepages_;
    abandoned_ -= t->abandoned;
    return Left::kNothing;
  }

  void Forget(HugeTracker* t) {
    lists_.Remove(t);
    DropTotals(*t);
    --hugepages_;
    abandoned_ -= t->abandoned;
  }

  void SetHead(HugeTracker* t, Pages head) {
    slack_ += t->donated_head;
    slack_ -= head.raw();
    t->donated_head = static_cast<uint16_t>(head.raw());
  }

  // Keeps out[0, n) the best candidates in order. Of equals the first stays first, as ranks are by
  // group.
  static size_t KeepFewestUsed(HugeTracker* t, HugeTracker** out, size_t n, size_t max) {
    if (t->free_backed() == 0) return n;
    auto better = [](const HugeTracker* a, const HugeTracker* b) { return a->used() < b->used(); };
    if (n == max && !better(t, out[n - 1])) return n;
    size_t at = n < max ? n++ : n - 1;
    for (; at > 0 && better(t, out[at - 1]); --at) out[at] = out[at - 1];
    out[at] = t;
    return n;
  }

  void AddTotals(const HugeTracker& t) {
    used_ += t.used();
    released_ += t.released();
    gone_ += t.gone();
    untouched_ += t.untouched();
  }
  void DropTotals(const HugeTracker& t) {
    used_ -= t.used();
    released_ -= t.released();
    gone_ -= t.gone();
    untouched_ -= t.untouched();
  }

  const FillerGroups groups_;
  TrackerLists lists_;
  IntrusiveList<HugeTracker> empties_;   // broken and empty
  IntrusiveList<HugeTracker> detached_;  // being released or collapsed
  size_t hugepages_ = 0;
  size_t used_ = 0;
  size_t released_ = 0;
  size_t gone_ = 0;
  size_t untouched_ = 0;
  size_t slack_ = 0;
  size_t abandoned_ = 0;
  uint32_t tick_ = 0;
};

}  // namespace strata
