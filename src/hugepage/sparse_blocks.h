// Large blocks of which the program touches a little here and there: tables, rings, arenas, stacks
// of its own. Each touch makes 2 MiB resident, and at the first one nobody knows how many follow.
// So their hugepages are looked at afterwards: of one that holds hardly anything but zeros the
// kernel is asked to take it apart, which gives its zero pages back. That is safe while the program
// goes on writing, as the kernel looks once more where no thread can write (Linux 6.12, made for
// hugepages that few use; this asks for it before memory is short). One that fills up after all is
// rebuilt, and then left alone. Sits in hugepage; the page heap's lock guards it and is dropped
// around the looks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/units.h"
#include "hugepage/break_policy.h"
#include "hugepage/collapser.h"
#include "hugepage/huge_tracker.h"
#include "hugepage/page_tiers.h"
#include "os/page_kernel.h"

namespace strata {

// Whether hugepages are rebuilt in this tick.
enum class Rebuilds : bool { kNo, kYes };

template <PageKernel Kernel>
class SparseBlocks {
 public:
  using Tiers = PageTiers<Kernel>;

  // From where the last one ended, until one of the times is up. Returns how long it rebuilt.
  uint64_t Look(Tiers& t, Program program, Rebuilds rebuilds, const RebuildTime& most)
      STRATA_REQUIRES(t.lock) {
    if (most.look_ns == 0 || !t.hugepages || t.large == HugePages(0) || !IsPossible(t)) return 0;
    const Round round{Seconds(t.CoarseNow()), program == Program::kWorks,
                      rebuilds == Rebuilds::kYes && most.collapse_ns != 0};
    Spent spent;
    for (size_t i = std::min(kSteps, t.allocator.end().raw()); i != 0; --i) {
      if (cursor_ >= t.allocator.end()) cursor_ = HugePageId();
      const HugePageId p = cursor_;
      cursor_ += HugePages(1);
      const HugePageRecord* r = t.map.Find(p);
      if (r == nullptr || !IsDue(*r, round) || !(r->no_huge || MayMark(t))) continue;
      LookAt(t, p, round, spent);
      if (spent.look_ns >= most.look_ns || spent.collapse_ns >= most.collapse_ns ||
          spent.advised >= kMostAdvised)
        break;
    }
    return spent.collapse_ns;
  }

  // In the child of a fork: whoever was rebuilding has not come along.
  static void Recover(Tiers& t) STRATA_REQUIRES(t.lock) {
    const HugePageId p = std::exchange(t.block_rebuilt, Tiers::kNoHugePage);
    if (p != Tiers::kNoHugePage && t.map[p].no_huge) t.kernel.AdviseNoHuge({p, HugePages(1)});
  }

 private:
  static constexpr size_t kSteps = 1024;  // hugepages in a tick
  // The same for which the kernel is given advice: under the lock, on memory in use.
  static constexpr size_t kMostAdvised = 16;
  // Most programs fill a block at once. A working one pays for what it touches of a hugepage that
  // was taken apart.
  static constexpr uint32_t kRestingAgeS = 2, kWorkingAgeS = 30;
  static constexpr uint32_t kLeastAgainS = 2, kMostAgainMarkedS = 120, kAfterRefusalS = 300;
  static constexpr uint32_t kNever = UINT32_MAX;
  // Native pages that are not zero: at most so many to be taken apart, more than so many to be
  // rebuilt.
  static constexpr size_t kFew = kNativePerHugePage / 4, kMany = kNativePerHugePage / 2;
  static constexpr size_t kUntold = SIZE_MAX;

  enum class Possible : uint8_t { kNotAsked, kNo, kYes };
  struct Round {
    uint32_t now_s;
    bool works, rebuilds;
  };
  struct Spent {
    uint64_t look_ns = 0, collapse_ns = 0;
    size_t advised = 0;
  };

  bool IsPossible(Tiers& t) STRATA_REQUIRES(t.lock) {
    if (possible_ == Possible::kNotAsked) {
      t.lock.Release();
      const bool yes = t.kernel.CanCollapse() && t.kernel.FreesZeroPages();
      t.lock.Acquire();
      possible_ = yes ? Possible::kYes : Possible::kNo;
    }
    return possible_ == Possible::kYes;
  }

  // Half of the marks are left to small objects.
  static bool MayMark(const Tiers& t) STRATA_REQUIRES(t.lock) {
    return t.marked < Tiers::kMarkBudget / 2;
  }

  static bool IsDue(const HugePageRecord& r, const Round& round) {
    if (r.state != HugePageState::kLarge || round.now_s < r.look_after_s) return false;
    if (r.no_huge && round.works && !round.rebuilds) return false;
    const uint32_t age_s = round.works && !r.no_huge ? kWorkingAgeS : kRestingAgeS;
    return round.now_s >= r.in_use_since_s + age_s;
  }

  // Again the later, the longer it is in use.
  static uint32_t AgainS(bool marked, uint32_t age_s) {
    return std::clamp(age_s, kLeastAgainS, marked ? kMostAgainMarkedS : kNever / 2);
  }

  void LookAt(Tiers& t, HugePageId p, const Round& round, Spent& spent) STRATA_REQUIRES(t.lock) {
    const uint32_t since_s = t.map[p].in_use_since_s;
    const bool marked = t.map[p].no_huge;
    t.map[p].look_after_s = round.now_s + AgainS(marked, round.now_s - since_s);
    t.lock.Release();
    const uint64_t begin = t.kernel.NowNs();
    const size_t nonzero =
        marked ? CountMarked(t.kernel, p, round) : Count(t.kernel, p, kNativePerHugePage, kFew);
    const uint64_t end = t.kernel.NowNs();
    t.lock.Acquire();
    spent.look_ns += end - begin;
    if (nonzero == kUntold || !IsStill(t, p, since_s)) return;
    if (!marked) {
      if (nonzero <= kFew) TakeApart(t, p, round.now_s, spent);
    } else if (nonzero > kMany) {
      Rebuild(t, p, spent);
      spent.collapse_ns += t.kernel.NowNs() - end;
    }
  }
  static bool IsStill(Tiers& t, HugePageId p, uint32_t since_s) STRATA_REQUIRES(t.lock) {
    return t.map[p].state == HugePageState::kLarge && t.map[p].in_use_since_s == since_s;
  }

  // Pages that were never touched are not read, nor are any that were swapped out.
  static size_t Count(Kernel& kernel, HugePageId p, size_t least_resident, size_t most) {
    unsigned char resident[kNativePerHugePage];
    if (!kernel.Resident(p, resident)) return kUntold;
    const auto n = std::count_if(resident, resident + kNativePerHugePage,
                                 [](unsigned char c) { return (c & 1) != 0; });
    return static_cast<size_t>(n) < least_resident ? kUntold : kernel.NonZero(p, resident, most);
  }

  // It fills up only while the program works. Until then the kernel is asked once more: it leaves
  // hugepages whole, without a word, that the child of a fork has too, or that are being read.
  static size_t CountMarked(Kernel& kernel, HugePageId p, const Round& round) {
    const size_t nonzero = round.works ? Count(kernel, p, kMany, kMany) : kUntold;
    if (nonzero == kUntold || nonzero <= kMany) Split(kernel, p);
    return nonzero;
  }
  static bool Split(Kernel& kernel, HugePageId p) {
    return kernel.SplitHugePage(p, {OffsetOf(p), kNativePageSize});
  }

  // The advice comes first, so that the kernel's own thread does not rebuild the hugepage at once;
  // and under the lock, so that it is this block's. A move under way counts on the advice that it
  // found.
  static void TakeApart(Tiers& t, HugePageId p, uint32_t now_s, Spent& spent)
      STRATA_REQUIRES(t.lock) {
    const HugeRange one{p, HugePages(1)};
    if (t.moves != 0) t.map[p].look_after_s = now_s + kLeastAgainS;
    if (t.moves != 0 || !MayMark(t) || !t.Mark(t.map[p])) return;
    ++spent.advised;
    t.kernel.AdviseNoHuge(one);
    t.lock.Release();
    const bool done = Split(t.kernel, p);
    t.lock.Acquire();
    // Given back meanwhile, it goes to the kernel as a broken one.
    if (done || t.map[p].state != HugePageState::kLarge || !t.map[p].no_huge) return;
    t.kernel.AdviseHuge(one);
    t.Unmark(t.map[p]);
    t.map[p].look_after_s = now_s + kAfterRefusalS;
  }

  // Given back meanwhile, it is out of reach until this is done, and so is what was cut off.
  static void Rebuild(Tiers& t, HugePageId p, Spent& spent) STRATA_REQUIRES(t.lock) {
    const HugeRange one{p, HugePages(1)};
    ++spent.advised;
    t.kernel.AdviseHuge(one);
    t.block_rebuilt = p;
    t.lock.Release();
    const bool done = t.kernel.Collapse(one);
    t.lock.Acquire();
    t.block_rebuilt = Tiers::kNoHugePage;
    HugePageRecord& record = t.map[p];
    if (record.state == HugePageState::kInFlight) return t.Arrive(one, Tiers::Memory::kStays);
    if (done) {
      t.Unmark(record);
      record.look_after_s = kNever;
    } else {
      t.kernel.AdviseNoHuge(one);
    }
    HugeTracker* tail = t.InFiller(p);
    if (tail == nullptr) return;
    if (done) t.filler.Change(tail, [tail] { tail->NoteCollapsed(); });
    t.ReattachOrRetire(tail);
  }

  HugePageId cursor_;
  Possible possible_ = Possible::kNotAsked;
};

}  // namespace strata
