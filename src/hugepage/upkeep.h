// What the page heap does beside serving runs, and by which rules: gives back what demand does not
// want once a tick, makes room for a request that failed, rebuilds broken hugepages and backs new
// ones ahead. It says when and how much; releaser.h, collapser.h, sparse_blocks.h and populator.h
// do it. Sits in hugepage, below the page heap, whose lock guards it and is dropped for the
// kernel's work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/break_policy.h"
#include "hugepage/collapser.h"
#include "hugepage/demand_tracker.h"
#include "hugepage/hard_limit.h"
#include "hugepage/page_heap_options.h"
#include "hugepage/page_tiers.h"
#include "hugepage/populator.h"
#include "hugepage/releaser.h"
#include "hugepage/soft_limit.h"
#include "hugepage/sparse_blocks.h"
#include "os/page_kernel.h"
#include "os/side_stack.h"

namespace strata {

template <PageKernel Kernel>
class Upkeep {
 public:
  using Tiers = PageTiers<Kernel>;

  Upkeep(const HardLimit& hard_limit, const SoftLimit& soft_limit, const PageHeapOptions& options)
      : releases_(options.release),
        hard_limit_(hard_limit),
        soft_limit_(soft_limit),
        demand_({options.busy_short_ms, options.busy_long_ms, options.peak_ms, options.idle_ms}) {}
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  // Of t.used, which has changed.
  void NoteUse(Tiers& t) STRATA_REQUIRES(t.lock) { demand_.Record(t.used.raw()); }

  // Once a second; see PageHeap. What it returns was given back.
  Pages Tick(Tiers& t, CallRate calls, Program program) STRATA_REQUIRES(t.lock);
  void SetRebuildTime([[maybe_unused]] Tiers& t, RebuildTime time) STRATA_REQUIRES(t.lock) {
    rebuild_time_ = time;
  }

  // Goes on with what the last tick rebuilds, in parts. False: that is all until the next.
  bool RebuildPart(Tiers& t) STRATA_REQUIRES(t.lock);
  bool rebuilds([[maybe_unused]] const Tiers& t) const STRATA_REQUIRES(t.lock) { return rebuilds_; }

  bool GrowsFast(Tiers& t) STRATA_REQUIRES(t.lock) {
    return releases_ && populator_.IsGrowthFast(t);
  }
  // `ahead` is left under the limits, for those who ask meanwhile.
  bool PopulateAhead(Tiers& t, Pages ahead) STRATA_REQUIRES(t.lock);

  // After a failed attempt: gives back what stood in its way. False: nothing did, or not enough. A
  // program at its limit may ask again and again: where that can be told, nothing goes back in
  // vain.
  bool MakeRoom(Tiers& t, Pages n) STRATA_REQUIRES(t.lock);
  // For callers on a program's stack.
  Pages ReleaseForRequest(Tiers& t, Pages target) STRATA_REQUIRES(t.lock);
  // Whatever demand says.
  Pages ReleaseAnyway(Tiers& t, Pages target) STRATA_REQUIRES(t.lock) {
    return releaser_.Release(t, target, HugePages(0), Program::kIsShort);
  }

  // The large run that was just freed, if it goes back at once.
  void ReleaseDeparting(Tiers& t) STRATA_REQUIRES(t.lock) {
    OnSideStack([&]() STRATA_NO_TSA { releaser_.ReleaseDeparting(t); });
  }

  // In the child of a fork: who was in the middle of it is not there.
  void Recover(Tiers& t) STRATA_REQUIRES(t.lock) {
    t.rebuilding = Pages(0);
    rebuilds_ = false;
    sparse_blocks_.Recover(t);
    releaser_.Recover(t);
  }

  // Not for longer than the lock is held.
  Releaser<Kernel>& releaser([[maybe_unused]] const Tiers& t) STRATA_REQUIRES(t.lock) {
    return releaser_;
  }
  const Releaser<Kernel>& releaser([[maybe_unused]] const Tiers& t) const STRATA_REQUIRES(t.lock) {
    return releaser_;
  }
  Pages last_demand([[maybe_unused]] const Tiers& t) const STRATA_REQUIRES(t.lock) {
    return last_demand_;
  }
  size_t collapsed_total([[maybe_unused]] const Tiers& t) const STRATA_REQUIRES(t.lock) {
    return collapser_.collapsed_total();
  }
  bool releases() const { return releases_; }  // needs no lock, nor does the next
  uint32_t rebuilt_in_use() const { return collapser_.rebuilt_in_use(); }

 private:
  // Without what was given back inside the runs.
  static Pages InUse(const Tiers& t) STRATA_REQUIRES(t.lock) {
    return t.used - Pages(t.filler.gone_native() / kNativePerPage);
  }
  Pages ReleaseSurplus(Tiers& t, Pages wanted, Program program) STRATA_REQUIRES(t.lock);
  void RebuildWithin(Tiers& t, Pages wanted, Pages growth, Program program) STRATA_REQUIRES(t.lock);
  size_t MostOfAPart(const Tiers& t) const STRATA_REQUIRES(t.lock);

  static constexpr size_t kTicksForAll = 4, kMostOfAPart = 16;

  const bool releases_;
  const HardLimit& hard_limit_;
  const SoftLimit& soft_limit_;
  DemandTracker demand_;
  Releaser<Kernel> releaser_;
  Collapser<Kernel> collapser_;
  Populator<Kernel> populator_;
  SparseBlocks<Kernel> sparse_blocks_;
  Pages last_demand_;
  Pages last_in_use_;  // at the end of the last tick
  RebuildTime rebuild_time_{200'000'000, 400'000'000};
  // What is left for this tick.
  RebuildBudget budget_{Pages(0), Pages(0), Pages(0), {}};
  uint32_t part_ = 0;
  size_t most_of_a_part_ = 0;
  bool rebuilds_ = false;
};

template <PageKernel Kernel>
Pages Upkeep<Kernel>::Tick(Tiers& t, CallRate calls, Program program) {
  const uint64_t now = t.CoarseNow();
  demand_.Advance(now, calls);
  releaser_.NoteProgram(program, Seconds(now));
  last_demand_ = Pages(demand_.Demand());
  const Pages growth = InUse(t) > last_in_use_ ? InUse(t) - last_in_use_ : Pages(0);
  if (!releases_) return Pages(0);
  t.cache.Adjust(now);
  t.prompt.Age();
  // Hugepages that a busy program's next runs land in are not broken.
  const Pages wanted = demand_.idle() ? last_demand_ : last_demand_ + HeadroomOf(last_demand_);
  const Pages released = ReleaseSurplus(t, wanted, program);
  RebuildWithin(t, wanted, growth, program);
  last_in_use_ = InUse(t);  // a rebuild's own share is no growth
  t.filler.EndTick();
  return released;
}

template <PageKernel Kernel>
Pages Upkeep<Kernel>::ReleaseSurplus(Tiers& t, Pages wanted, Program program) {
  releaser_.DropEmptyRegions(t);
  Pages released = releaser_.ReleaseEmpties(t);
  const Pages backed = t.used + t.FreeBacked();
  if (backed <= wanted) return released;
  // A busy program's cache stays while regions have anything to give.
  const HugePages keep = demand_.idle() ? HugePages(0) : t.cache.limit();
  released += releaser_.Release(t, std::min(backed - wanted, t.FreeBacked()), keep, program);
  return released;
}

template <PageKernel Kernel>
void Upkeep<Kernel>::RebuildWithin(Tiers& t, Pages wanted, Pages growth, Program program) {
  rebuilds_ = t.hugepages && program == Program::kWorks && collapser_.Due() &&
              !soft_limit_.near_soft_limit();
  const Rebuilds blocks_too{rebuilds_};
  budget_ = {wanted, hard_limit_.most(), growth, rebuild_time_};
  collapser_.BeginTick();
  part_ = 0;
  // No slower as there are fewer left.
  most_of_a_part_ = std::max(most_of_a_part_, MostOfAPart(t));
  RebuildPart(t);
  const uint64_t ns = sparse_blocks_.Look(t, program, blocks_too, budget_.time);
  budget_.time.collapse_ns -= std::min(budget_.time.collapse_ns, ns);
}

// Page faults wait for each call, and so may whoever touches the hugepage: with some time between
// the calls few requests meet one.
template <PageKernel Kernel>
bool Upkeep<Kernel>::RebuildPart(Tiers& t) {
  if (!rebuilds_ || soft_limit_.near_soft_limit()) return rebuilds_ = false;
  const RebuildTime& all = rebuild_time_;
  rebuilds_ = ++part_ < all.parts;
  const auto is_ahead = [&](uint64_t most, uint64_t left) {
    return (most - left) * all.parts > most * (part_ - 1);
  };
  if (is_ahead(all.collapse_ns, budget_.time.collapse_ns) ||
      is_ahead(all.touch_ns, budget_.time.touch_ns))
    return rebuilds_;
  budget_.hard_limit = hard_limit_.most();
  if (!collapser_.Rebuild(t, budget_, most_of_a_part_)) {
    most_of_a_part_ = 0;
    rebuilds_ = false;
  }
  return rebuilds_;
}

// So that all that is broken has had its turn after a few ticks.
template <PageKernel Kernel>
size_t Upkeep<Kernel>::MostOfAPart(const Tiers& t) const {
  if (rebuild_time_.parts == 1) return SIZE_MAX;
  using L = TrackerLists;
  size_t broken = 0;
  for (const PlacementGroup group : kPlacementGroups)
    broken += t.filler.count({L::kReleased, group}) + t.filler.count({L::kPartial, group});
  return std::clamp<size_t>(broken / (rebuild_time_.parts * kTicksForAll), 1, kMostOfAPart);
}

template <PageKernel Kernel>
bool Upkeep<Kernel>::PopulateAhead(Tiers& t, Pages ahead) {
  if (soft_limit_.near_soft_limit()) return false;
  const Pages taken = t.Backed() + ahead;
  const Pages most = hard_limit_.most() > taken ? hard_limit_.most() - taken : Pages(0);
  return populator_.Look(t, HugePages(most / kPagesInHugePage));
}

template <PageKernel Kernel>
bool Upkeep<Kernel>::MakeRoom(Tiers& t, Pages n) {
  if (hard_limit_.hit()) {
    if (t.used + n > hard_limit_.most()) return false;  // whatever goes back
    return ReleaseForRequest(t, PagesOf(HugeCeil(n) + HugePages(2))) > Pages(0);
  }
  const HugePages wanted = HugeCeil(n), free = t.cache.size() + t.allocator.free();
  const HugePages least = free < wanted ? wanted - free : HugePages(1);
  if (t.filler.Empties(least) < least) return releaser_.DropEmptyRegions(t);
  const HugePages before = t.allocator.free();
  OnSideStack([&]() STRATA_NO_TSA { releaser_.ReleaseEmpties(t); });
  return t.allocator.free() > before;  // the kernel may have refused
}

template <PageKernel Kernel>
STRATA_NOINLINE Pages Upkeep<Kernel>::ReleaseForRequest(Tiers& t, Pages target) {
  Pages released;
  OnSideStack([&]() STRATA_NO_TSA { released = ReleaseAnyway(t, target); });
  return released;
}

}  // namespace strata
