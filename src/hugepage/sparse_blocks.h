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

#include "base/units.h"
#include "hugepage/break_policy.h"
#include "hugepage/collapser.h"
#include "hugepage/page_tiers.h"
#include "os/page_kernel.h"

namespace strata {

template <PageKernel Kernel>
class SparseBlocks {
 public:
  using Tiers = PageTiers<Kernel>;

  // From where the last one ended, until one of the times is up.
  void Look(Tiers& t, Program program, const RebuildTime& most) STRATA_REQUIRES(t.lock) {
    if (most.look_ns == 0 || !t.hugepages || t.large == HugePages(0) || !IsPossible(t)) return;
    const uint32_t now_s = Seconds(t.CoarseNow());
    RebuildTime spent{};
    for (size_t i = std::min(kSteps, t.allocator.end().raw()); i != 0; --i) {
      if (cursor_ >= t.allocator.end()) cursor_ = HugePageId();
      const HugePageId p = cursor_;
      cursor_ += HugePages(1);
      const HugePageRecord* r = t.map.Find(p);
      if (r == nullptr || !IsDue(*r, now_s, program)) continue;
      LookAt(t, p, now_s, spent);
      if (spent.look_ns >= most.look_ns || spent.collapse_ns >= most.collapse_ns) return;
    }
  }

 private:
  static constexpr size_t kSteps = 1024;  // hugepages in a tick
  // Most programs fill a block at once. A working one pays for what it touches of a hugepage that
  // was taken apart.
  static constexpr uint32_t kRestingAgeS = 2, kWorkingAgeS = 30;
  static constexpr uint32_t kLeastAgainS = 2, kMostAgainS = 600, kMostAgainMarkedS = 16;
  static constexpr uint32_t kNever = UINT32_MAX;
  // Native pages that are not zero: at most so many to be taken apart, more than so many to be
  // rebuilt.
  static constexpr size_t kFew = kNativePerHugePage / 4, kMany = kNativePerHugePage / 2;
  static constexpr size_t kUntold = SIZE_MAX;

  enum class Possible : uint8_t { kNotAsked, kNo, kYes };

  bool IsPossible(Tiers& t) STRATA_REQUIRES(t.lock) {
    if (possible_ == Possible::kNotAsked) {
      t.lock.Release();
      const bool yes = t.kernel.CanCollapse() && t.kernel.FreesZeroPages();
      t.lock.Acquire();
      possible_ = yes ? Possible::kYes : Possible::kNo;
    }
    return possible_ == Possible::kYes;
  }

  // One that was taken apart fills up only while the program works.
  static bool IsDue(const HugePageRecord& r, uint32_t now_s, Program program) {
    const bool works = program == Program::kWorks;
    const uint32_t age_s = works && !r.no_huge ? kWorkingAgeS : kRestingAgeS;
    return r.state == HugePageState::kLarge && (works || !r.no_huge) && now_s >= r.look_after_s &&
           now_s >= r.in_use_since_s + age_s;
  }

  // Again the later, the longer it is in use.
  static uint32_t AgainS(bool marked, uint32_t age_s) {
    return std::clamp(age_s, kLeastAgainS, marked ? kMostAgainMarkedS : kMostAgainS);
  }

  void LookAt(Tiers& t, HugePageId p, uint32_t now_s, RebuildTime& spent) STRATA_REQUIRES(t.lock) {
    const uint32_t since_s = t.map[p].in_use_since_s;
    const bool marked = t.map[p].no_huge;
    t.lock.Release();
    const uint64_t begin = t.kernel.NowNs();
    const size_t nonzero =
        marked ? Count(t.kernel, p, kMany, kMany) : Count(t.kernel, p, kNativePerHugePage, kFew);
    t.lock.Acquire();
    if (IsStill(t, p, since_s)) {
      t.map[p].look_after_s = now_s + AgainS(marked, now_s - since_s);
      if (!marked && nonzero <= kFew) TakeApart(t, p);
    }
    const uint64_t end = t.kernel.NowNs();
    spent.look_ns += end - begin;
    if (!marked || nonzero == kUntold || nonzero <= kMany || !IsStill(t, p, since_s)) return;
    Rebuild(t, p, since_s);
    spent.collapse_ns += t.kernel.NowNs() - end;
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
    return static_cast<size_t>(n) < least_resident ? kUntold : kernel.NonZero(p, most);
  }

  // The advice comes first, so that the kernel's own thread does not rebuild the hugepage at once;
  // and under the lock, so that it is this block's.
  static void TakeApart(Tiers& t, HugePageId p) STRATA_REQUIRES(t.lock) {
    if (!t.MayMark() || !t.Mark(t.map[p])) return;
    t.kernel.AdviseNoHuge({p, HugePages(1)});
    t.lock.Release();
    t.kernel.SplitHugePage(p, {OffsetOf(p), kNativePageSize});
    t.lock.Acquire();
  }

  static void Rebuild(Tiers& t, HugePageId p, uint32_t since_s) STRATA_REQUIRES(t.lock) {
    const HugeRange one{p, HugePages(1)};
    t.kernel.AdviseHuge(one);
    t.lock.Release();
    const bool done = t.kernel.Collapse(one);
    t.lock.Acquire();
    // Given back meanwhile, it goes to the kernel as a broken one, or is there.
    if (!IsStill(t, p, since_s) || !t.map[p].no_huge) return;
    if (done) {
      t.Unmark(t.map[p]);
      t.map[p].look_after_s = kNever;
    } else {
      t.kernel.AdviseNoHuge(one);
    }
  }

  HugePageId cursor_;
  Possible possible_ = Possible::kNotAsked;
};

}  // namespace strata
