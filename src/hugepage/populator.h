// Backs hugepages ahead of a program that grows fast, from the background: the kernel zeroes 2 MiB
// at a program's first touch of a hugepage, and where a hypervisor has to find the memory first
// that takes milliseconds of a request. Looks at what was taken since its last look, some fifty
// times a second while the program grows, and keeps about as much in the huge cache as goes in two
// such times. Sits in hugepage; the page heap's lock guards it and is dropped for the kernel's
// work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "hugepage/page_tiers.h"
#include "os/page_kernel.h"

namespace strata {

template <PageKernel Kernel>
class Populator {
 public:
  using Tiers = PageTiers<Kernel>;

  // Once a second: whether the program took so much fresh memory since that it pays to look often.
  bool IsGrowthFast(Tiers& t) STRATA_REQUIRES(t.lock) {
    const size_t taken = t.taken_fresh - seen_by_tick_;
    seen_by_tick_ = t.taken_fresh;
    seen_ = t.taken_fresh;
    idle_looks_ = 0;
    return !refused_ && t.hugepages && t.used >= kLeastHeap && taken >= kFast &&
           !t.cold.likely(Seconds(t.CoarseNow())) && !t.thin_use.likely();
  }

  // False: the program grows no more, or the kernel knows no such call.
  bool Look(Tiers& t, HugePages most) STRATA_REQUIRES(t.lock) {
    const size_t taken = t.taken_fresh - seen_;
    seen_ = t.taken_fresh;
    idle_looks_ = taken == 0 ? idle_looks_ + 1 : 0;
    if (refused_ || !t.hugepages || t.thin_use.likely()) return false;
    // There, the program grows by single pages, and this would take from it what it saves it.
    if (t.cold.likely(Seconds(t.CoarseNow()))) return false;
    if (t.used < kLeastHeap) {
      if (!tried_ && t.used >= kLeastToTry && most != HugePages(0)) TryOne(t);
      return idle_looks_ < kIdleLooks;
    }
    const HugePages wanted(std::min(2 * taken, std::min(kMost, t.cache.limit()).raw()));
    const HugePages lacking = wanted > t.cache.size() ? wanted - t.cache.size() : HugePages(0);
    // Where all may be cold, one tells.
    const HugePages tried =
        t.cold.surely_warm(Seconds(t.CoarseNow())) ? lacking : std::min(lacking, HugePages(1));
    if (const HugePages n = std::min(tried, most); n != HugePages(0)) Populate(t, n);
    return !refused_ && idle_looks_ < kIdleLooks;
  }

  // What one look backs at most: no more than the least limit of the huge cache.
  static constexpr HugePages kMost{10};
  static constexpr Pages kLeastHeap{8192};  // 64 MiB: smaller heaps gain nothing
  // 24 MiB: one hugepage more is no matter there, and from 32 on there are some.
  static constexpr Pages kLeastToTry{3072};

 private:
  static constexpr size_t kFast = 8;          // hugepages a second
  static constexpr uint32_t kIdleLooks = 25;  // in a row, until it ends

  // Touches one and gives it back, so that a heap which soon needs hugepages knows whether they are
  // cold before its program has waited for some.
  void TryOne(Tiers& t) STRATA_REQUIRES(t.lock) {
    const HugeRange one = t.allocator.Take(HugePages(1), HugePages(1));
    if (one.empty()) return;
    tried_ = true;
    const bool advise = t.map[one.first].unadvised;
    t.Unmark(t.map[one.first]);
    t.Depart(one);
    t.lock.Release();
    if (advise) t.kernel.AdviseHuge(one);
    const auto begin = t.kernel.StartOwnCpu();
    const bool backed = t.kernel.Populate(one);
    const uint64_t ns = t.kernel.OwnCpuSince(begin);
    const NativeRange all{OffsetOf(one.first), BytesOf(one.length)};
    const bool back = t.kernel.Release(&all, 1);
    t.lock.Acquire();
    if (backed && ns != 0) t.cold.NoteTouches(ns, 1, Seconds(t.CoarseNow()));
    t.Arrive(one, back ? Tiers::Memory::kGone : Tiers::Memory::kStays);
  }

  void Populate(Tiers& t, HugePages n) STRATA_REQUIRES(t.lock) {
    const HugeRange range = t.allocator.Take(n, HugePages(1));
    if (range.empty()) return;
    t.Depart(range);
    t.lock.Release();
    const auto begin = t.kernel.StartOwnCpu();
    const bool backed = t.kernel.Populate(range);
    const uint64_t ns = t.kernel.OwnCpuSince(begin);
    // Some of it may have been backed.
    const NativeRange all{OffsetOf(range.first), BytesOf(range.length)};
    const bool back = !backed && t.kernel.Release(&all, 1);
    t.lock.Acquire();
    refused_ = !backed;
    if (backed && ns != 0) t.cold.NoteTouches(ns / n.raw(), n.raw(), Seconds(t.CoarseNow()));
    t.Arrive(range, back ? Tiers::Memory::kGone : Tiers::Memory::kStays);
  }

  size_t seen_ = 0, seen_by_tick_ = 0;  // of what was taken
  uint32_t idle_looks_ = 0;
  bool refused_ = false;
  bool tried_ = false;
};

}  // namespace strata
