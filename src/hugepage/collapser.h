// Rebuilds broken hugepages when they are nearly full again (Maas et al., ISMM 2021), ahead of a
// program that fills its heap again, and those that a small heap began with: which, how many in one
// call, and how much memory and time that may take. MADV_COLLAPSE waits for all CPUs once a call,
// so neighbours are rebuilt together. The first of a tick, and all where frames are cold
// (cold_frames.h), get a frame that was touched ahead. Sits in hugepage; the page heap's lock
// guards it and is dropped for the kernel's work, with the hugepages detached meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/collapse_pacer.h"
#include "hugepage/demand_tracker.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_tiers.h"
#include "hugepage/rebuild_order.h"
#include "hugepage/thin_use.h"
#include "hugepage/tracker_lists.h"
#include "os/page_kernel.h"

namespace strata {

// How long a tick may rebuild, and touch frames ahead: page faults of the program wait for the
// former alone.
struct RebuildTime {
  uint64_t collapse_ns, touch_ns;
  uint64_t look_ns = 0;  // for the hugepages of large blocks (sparse_blocks.h)
  uint32_t parts = 1;    // in which it is spent, so that the program hardly waits
};

// What a tick's rebuilding may come to.
struct RebuildBudget {
  RebuildBudget(Pages wanted_pages, Pages limit, Pages grew, RebuildTime most)
      : wanted(wanted_pages),
        hard_limit(limit),
        growth(grew >= kFastGrowth ? grew : Pages(0)),
        ahead(growth),
        time(most) {}

  static constexpr Pages kFastGrowth{1024};  // of memory in use since the last tick: 8 MiB

  Pages wanted;      // may be backed in all: what demand wants
  Pages hard_limit;  // the same: never more
  Pages growth;      // of a program that grows fast
  Pages ahead;       // what is left of as much
  RebuildTime time;
  bool first = true;  // nothing was rebuilt in this tick yet
};

template <PageKernel Kernel>
class Collapser {
 public:
  using Tiers = PageTiers<Kernel>;

  void BeginTick() {
    next_.Clear();
    steps_ = kSteps;
  }
  // Whether this tick may rebuild anything; to be asked once a tick.
  bool Due() {
    // A single call may have waited for a CPU; the mean hardly shows that.
    if (tried_ != 0) pacer_.Report(tried_ns_ / tried_);
    tried_ = tried_ns_ = 0;
    return pacer_.Due();
  }

  // What this backs again lies in hugepages that lack little of it, within what demand wants or a
  // working program's headroom. A program that grows fast will want as much in the next second as
  // in the last: so much is rebuilt for it wherever it lacks, instead of faulted in. At most so
  // many hugepages; takes what it spends off the budget, and says whether there may be more to
  // rebuild.
  bool Rebuild(Tiers& t, RebuildBudget& budget, size_t most = SIZE_MAX) STRATA_REQUIRES(t.lock);

  size_t collapsed_total() const { return collapsed_total_; }  // hugepages, ever
  // Grows when memory came back inside runs in use. Needs no lock.
  uint32_t rebuilt_in_use() const { return rebuilt_in_use_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kMissing = kNativePerHugePage / 16;  // at most, of a hugepage
  static constexpr Pages kLeastHeap{2048};                     // 16 MiB
  static constexpr size_t kBatch = 8;                          // neighbours out of reach at a time
  static constexpr Pages kHeapPerTouched{8192};                // 64 MiB a hugepage touched ahead
  static constexpr size_t kSteps = 1024;                       // hugepages looked at in a tick
  static constexpr size_t kDueAtOnce = 2 * RebuildOrder::kMost;
  static constexpr uint32_t kAgainS = 300;  // after the kernel refused
  static constexpr uint32_t kMostThinAgainS = 60;

  struct Search {
    uint32_t now_s;
    Pages spare;  // free pages that may be backed again
    Pages ahead;  // pages, free or in use, that may be for what is to come
    Pages hard_limit;
    size_t batch;  // hugepages in one call
    bool first;    // of the tick: it is alone, and tells whether frames are cold
    bool cold;
  };
  struct Touch {
    bool backed = false;
    uint64_t ns = 0, cpu_ns = 0;  // of all
    typename Tiers::Memory left = Tiers::Memory::kGone;
  };
  // To be rebuilt in one call: detached, in address order, one beside the other.
  struct Neighbours {
    HugeTracker* tracker[kBatch];
    size_t n = 0;

    HugePageId first() const { return tracker[0]->page(); }
    HugePageId end() const { return first() + HugePages(n); }
    void PushFront(HugeTracker* t) {
      std::copy_backward(tracker, tracker + n, tracker + n + 1);
      tracker[0] = t;
      ++n;
    }
  };

  static size_t MissingFrom(const HugeTracker& tracker) {  // native pages
    return tracker.released() * kNativePerPage + tracker.gone();
  }
  // One that began as single pages was never too empty to be a hugepage: it may lack as much as a
  // working program's may have free before it is broken.
  static size_t MostMissing(const HugeTracker& tracker) {
    return tracker.sparse ? kNativePerHugePage / 4 : kMissing;
  }
  static bool IsWorthRebuilding(const HugeTracker& tracker, const Search& s) {
    const size_t missing = MissingFrom(tracker);
    return !tracker.empty() &&
           (missing <= MostMissing(tracker) || missing <= s.ahead.raw() * kNativePerPage) &&
           Pages(tracker.released()) <= s.spare && s.now_s >= tracker.collapse_after_s;
  }

  // Frames touched ahead come on top of the heap: few for a small one.
  static size_t BatchOf(const Tiers& t, const Search& s) STRATA_REQUIRES(t.lock) {
    if (s.first) return 1;
    return s.cold ? std::min<size_t>(t.used / kHeapPerTouched, kBatch) : kBatch;
  }
  // Into a cold frame only what was worth it a second ago too: a short burst is not worth the
  // milliseconds.
  static bool IsDue(HugeTracker& tracker, const Search& s) {
    if (!IsWorthRebuilding(tracker, s)) return false;
    if (tracker.worth_since_s == 0) tracker.worth_since_s = s.now_s;
    return !s.cold || tracker.worth_since_s < s.now_s;
  }

  // Until one that was hardly touched is looked at again: the longer, the longer it has been so.
  static uint32_t ThinAgain(const HugePageRecord& r, const Search& s) {
    const uint32_t age_s = s.now_s > r.in_use_since_s ? s.now_s - r.in_use_since_s : 0;
    return std::clamp(age_s / 4, uint32_t{1}, kMostThinAgainS);
  }

  HugeTracker* Find(Tiers& t, Search& s) STRATA_REQUIRES(t.lock);
  void LookForMore(Tiers& t, Search& s) STRATA_REQUIRES(t.lock);
  bool Add(Tiers& t, HugePageId page, Search& s, Neighbours& found) STRATA_REQUIRES(t.lock);
  void FindNeighbours(Tiers& t, Search& s, Neighbours& found) STRATA_REQUIRES(t.lock);
  // Says how long it took, in ns.
  uint64_t DropThinlyUsed(Tiers& t, Search& s, Neighbours& found) STRATA_REQUIRES(t.lock);
  // Says how long it took.
  RebuildTime Collapse(Tiers& t, const Neighbours& found, const Search& s) STRATA_REQUIRES(t.lock);
  static void AskKernel(Kernel& kernel, HugeRange range, bool* done);
  HugeRange TakeToTouch(Tiers& t, HugePages n, const Search& s) STRATA_REQUIRES(t.lock);
  static Touch TouchAhead(Kernel& kernel, HugeRange unused);
  static HugeRange One(HugeRange range, size_t i) {
    return {range.first + HugePages(i), HugePages(1)};
  }

  CollapsePacer pacer_;
  bool touch_refused_ = false;
  RebuildOrder next_;
  size_t steps_ = kSteps;  // left of this tick
  uint32_t round_ = 0;     // of looks
  uint64_t tried_ns_ = 0;
  size_t tried_ = 0;  // in this tick
  size_t collapsed_total_ = 0;
  std::atomic<uint32_t> rebuilt_in_use_{0};
};

template <PageKernel Kernel>
bool Collapser<Kernel>::Rebuild(Tiers& t, RebuildBudget& budget, size_t most) {
  if (t.used < kLeastHeap) return false;
  Search search{};
  search.now_s = Seconds(t.CoarseNow());
  search.ahead = budget.ahead;
  search.hard_limit = budget.hard_limit;
  RebuildTime& left = budget.time;
  size_t done = 0;
  bool more = true;
  while (left.collapse_ns != 0 && left.touch_ns != 0 && done < most) {
    const Pages backed = t.Backed();  // others took and gave meanwhile
    const Pages top =
        std::min(std::max(budget.wanted, t.used + std::max(HeadroomOf(t.used), budget.growth)),
                 std::max(budget.hard_limit, backed));
    search.spare = top > backed ? top - backed : Pages(0);
    search.first = budget.first;
    search.cold = t.cold.likely(search.now_s);
    if (search.cold) search.ahead = Pages(0);  // page faults cost less than that
    search.batch = std::min(BatchOf(t, search), most - done);
    Neighbours found;
    FindNeighbours(t, search, found);
    more = found.n != 0;
    if (!more) break;
    const uint64_t looked_ns = DropThinlyUsed(t, search, found);
    const RebuildTime took = found.n != 0 ? Collapse(t, found, search) : RebuildTime{};
    left.collapse_ns -= std::min(left.collapse_ns, looked_ns + took.collapse_ns);
    left.touch_ns -= std::min(left.touch_ns, took.touch_ns);
    tried_ns_ += looked_ns + took.collapse_ns;
    tried_ += found.n;
    done += found.n;
    budget.first &= found.n == 0;
    if (!search.cold) budget.ahead = search.ahead;
  }
  return more && left.collapse_ns != 0 && left.touch_ns != 0;
}

// The next to be rebuilt: first of all what a small heap began with, then the hottest.
template <PageKernel Kernel>
HugeTracker* Collapser<Kernel>::Find(Tiers& t, Search& s) {
  const HugeRange unadvised = t.allocator.unadvised();
  for (HugePageId p = unadvised.first; p < unadvised.end(); p += HugePages(1)) {
    HugeTracker* tracker = t.map[p].unadvised ? t.InFiller(p) : nullptr;
    if (tracker != nullptr && !tracker->detached && IsDue(*tracker, s)) return tracker;
  }
  while (true) {
    while (!next_.empty()) {
      HugeTracker* tracker = t.InFiller(next_.TakeFirst().page);
      // Others may have changed it while the lock was dropped.
      if (tracker != nullptr && tracker->broken && !tracker->detached && IsDue(*tracker, s))
        return tracker;
    }
    LookForMore(t, s);
    if (next_.empty()) LookForMore(t, s);  // that one may have come to the end of the lists
    if (next_.empty()) return nullptr;
  }
}

template <PageKernel Kernel>
void Collapser<Kernel>::LookForMore(Tiers& t, Search& s) {
  using L = TrackerLists;
  size_t steps = steps_, due = 0;
  ++round_;
  for (const L::State state : {L::kReleased, L::kPartial}) {
    for (const PlacementGroup group : kPlacementGroups) {
      t.filler.Look({state, group}, round_, steps, [&](HugeTracker& c) {
        --steps_;
        if (!IsDue(c, s)) return;
        next_.Offer({c.page(), c.filled(), static_cast<uint32_t>(MissingFrom(c))});
        if (++due == kDueAtOnce) steps = 0;  // the others have their turn when these are done
      });
    }
  }
}

template <PageKernel Kernel>
bool Collapser<Kernel>::Add(Tiers& t, HugePageId page, Search& s, Neighbours& found) {
  HugeTracker* tracker = t.InFiller(page);
  if (tracker == nullptr || !(tracker->broken || t.map[page].unadvised) || tracker->detached ||
      !IsDue(*tracker, s))
    return false;
  s.spare -= Pages(tracker->released());
  if (const size_t missing = MissingFrom(*tracker); missing > MostMissing(*tracker))
    s.ahead -= Pages(missing / kNativePerPage);
  t.filler.Detach(tracker);
  if (found.n == 0 || page >= found.end()) {
    found.tracker[found.n++] = tracker;
  } else {
    found.PushFront(tracker);
  }
  return true;
}

template <PageKernel Kernel>
void Collapser<Kernel>::FindNeighbours(Tiers& t, Search& s, Neighbours& found) {
  const HugeTracker* one = Find(t, s);
  if (one == nullptr) return;
  Add(t, one->page(), s, found);
  while (found.n < s.batch && Add(t, found.end(), s, found)) {
  }
  while (found.n < s.batch && found.first() != HugePageId(0) &&
         Add(t, found.first() - HugePages(1), s, found)) {
  }
}

// Memory that the program took and hardly touched is not to be made resident. Asked without the
// lock, as that takes a while; meanwhile what may be backed counts as backed, and all may be freed.
// What comes behind such a one waits for the next round.
template <PageKernel Kernel>
uint64_t Collapser<Kernel>::DropThinlyUsed(Tiers& t, Search& s, Neighbours& found) {
  unsigned char resident[kBatch][kNativePerHugePage];
  bool known[kBatch];
  for (size_t i = 0; i < found.n; ++i) t.rebuilding += Pages(found.tracker[i]->released());
  t.lock.Release();
  const uint64_t begin = t.kernel.NowNs();
  for (size_t i = 0; i < found.n; ++i)
    known[i] = t.kernel.Resident(found.first() + HugePages(i), resident[i]);
  const uint64_t end = t.kernel.NowNs();
  t.lock.Acquire();
  t.rebuilding = Pages(0);
  size_t kept = 0, first_kept = 0;
  for (size_t i = 0; i < found.n; ++i) {
    HugeTracker* tracker = found.tracker[i];
    const bool thin =
        known[i] && ThinUse::IsThin(tracker->TouchedInUse(resident[i]), tracker->NativeInUse());
    if (thin) tracker->collapse_after_s = s.now_s + ThinAgain(t.map[tracker->page()], s);
    if (kept == 0) first_kept = i;
    if (thin || tracker->empty() || i != first_kept + kept) {
      if (const size_t missing = MissingFrom(*tracker); missing > MostMissing(*tracker))
        s.ahead += Pages(missing / kNativePerPage);  // as Add took
      t.ReattachOrRetire(tracker);
    } else {
      found.tracker[kept++] = tracker;
    }
  }
  found.n = kept;
  return end - begin;
}

template <PageKernel Kernel>
RebuildTime Collapser<Kernel>::Collapse(Tiers& t, const Neighbours& found, const Search& s) {
  const HugeRange range{found.first(), HugePages(found.n)};
  bool marked[kBatch], done[kBatch], advise = false;
  for (size_t i = 0; i < found.n; ++i) {
    const HugePageRecord& record = t.map[found.tracker[i]->page()];
    marked[i] = record.no_huge;
    advise |= marked[i] || record.unadvised;
    t.rebuilding += Pages(found.tracker[i]->released());
  }
  const HugeRange unused = TakeToTouch(t, range.length, s);
  t.lock.Release();
  const Touch touch = unused.empty() ? Touch{} : TouchAhead(t.kernel, unused);
  const uint64_t begin = t.kernel.NowNs();
  if (advise) t.kernel.AdviseHuge(range);
  AskKernel(t.kernel, range, done);
  // Without the mark the kernel would fill the holes at the next fault.
  for (size_t i = 0; i < found.n; ++i) {
    if (!done[i] && marked[i]) t.kernel.AdviseNoHuge(One(range, i));
  }
  const uint64_t end = t.kernel.NowNs();
  t.lock.Acquire();
  t.rebuilding = Pages(0);
  if (!unused.empty()) {
    t.Arrive(unused, touch.left);
    touch_refused_ = !touch.backed;
    const size_t n = unused.length.raw();
    if (touch.backed && touch.cpu_ns != 0) t.cold.NoteTouches(touch.cpu_ns / n, n, s.now_s);
  }
  for (size_t i = 0; i < found.n; ++i) {
    HugeTracker* tracker = found.tracker[i];
    if (done[i]) {
      t.Unmark(t.map[tracker->page()]);
      if (tracker->gone() != 0) rebuilt_in_use_.fetch_add(1, std::memory_order_relaxed);
      t.filler.Change(tracker, [tracker] { tracker->NoteCollapsed(); });
      ++collapsed_total_;
    } else {
      tracker->collapse_after_s = s.now_s + kAgainS;
    }
    t.ReattachOrRetire(tracker);
  }
  return {end - begin, touch.ns};
}

// What the kernel did of a call that failed in part it does not say, so then each is tried by
// itself.
template <PageKernel Kernel>
void Collapser<Kernel>::AskKernel(Kernel& kernel, HugeRange range, bool* done) {
  const bool all = kernel.Collapse(range);
  const size_t n = range.length.raw();
  for (size_t i = 0; i < n; ++i) done[i] = all || (n > 1 && kernel.Collapse(One(range, i)));
}

// As many hugepages without memory, within the hard limit and what others may ask for meanwhile.
// Empty: none are to be touched.
template <PageKernel Kernel>
HugeRange Collapser<Kernel>::TakeToTouch(Tiers& t, HugePages n, const Search& s) {
  if (!(s.first || s.cold) || touch_refused_) return {};
  if (t.Backed() + PagesOf(n + Tiers::kLeftToOthers) > s.hard_limit) return {};
  const HugeRange r = t.allocator.Take(n, HugePages(1));
  if (r.empty()) return {};
  bool advised = true;  // else they would be single pages
  for (HugePageId p = r.first; p < r.end(); p += HugePages(1)) advised &= !t.map[p].unadvised;
  if (!advised) {
    t.allocator.Give(r);
    return {};
  }
  t.Depart(r);
  return r;
}

// Touches frames and frees them: the kernel hands out first what was freed last.
template <PageKernel Kernel>
auto Collapser<Kernel>::TouchAhead(Kernel& kernel, HugeRange unused) -> Touch {
  Touch touch;
  const uint64_t begin = kernel.NowNs();
  const auto cpu_begin = kernel.StartOwnCpu();
  touch.backed = kernel.Populate(unused);
  touch.cpu_ns = kernel.OwnCpuSince(cpu_begin);
  touch.ns = kernel.NowNs() - begin;
  const NativeRange all{OffsetOf(unused.first), BytesOf(unused.length)};
  if (!kernel.Release(&all, 1)) touch.left = Tiers::Memory::kStays;
  return touch;
}

}  // namespace strata
