// What follows when pages are handed out or come back: demand learns of it, who watches growth is
// answered, and the soft limit is looked at once that is due. Sits in hugepage, below the page
// heap, whose lock guards it and is dropped while the kernel is asked; the answers that need no
// lock say so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"
#include "hugepage/page_tiers.h"
#include "hugepage/soft_limit.h"
#include "hugepage/upkeep.h"
#include "os/page_kernel.h"
#include "os/side_stack.h"

namespace strata {

template <PageKernel Kernel>
class UseAccount {
 public:
  using Tiers = PageTiers<Kernel>;

  UseAccount(SoftLimit& soft_limit, Upkeep<Kernel>& upkeep)
      : soft_limit_(soft_limit), upkeep_(upkeep) {}
  UseAccount(const UseAccount&) = delete;
  UseAccount& operator=(const UseAccount&) = delete;

  void Taken(Tiers& t, Pages n) STRATA_REQUIRES(t.lock) {
    t.used += n;
    NoteUse(t);
    NoteGrowth(t, n);
  }
  void Given(Tiers& t, Pages n) STRATA_REQUIRES(t.lock) {
    t.used -= n;
    NoteUse(t);
    if (STRATA_UNLIKELY(!t.departing.empty())) release_due_.store(true, std::memory_order_relaxed);
  }
  // More is charged to us; of that, `untouched` was handed out just now.
  void NoteGrowth(Tiers& t, Pages untouched) STRATA_REQUIRES(t.lock) {
    const Pages charged = t.Charged();
    if (STRATA_UNLIKELY(charged > watch_)) grew_past_watch_.store(true, std::memory_order_relaxed);
    if (STRATA_UNLIKELY(soft_limit_.Due(charged))) LookAtSoftLimit(t, untouched);
  }

  // Asks the kernel how far the limit is and gives back free pages if it is near.
  void LookAtSoftLimit(Tiers& t, Pages untouched) STRATA_REQUIRES(t.lock);

  // From then on GrewPastWatch() says when more than that is charged to us; SIZE_MAX: never.
  void WatchGrowth([[maybe_unused]] Tiers& t, size_t bytes) STRATA_REQUIRES(t.lock) {
    watch_ = Pages(bytes >> kPageShift);
    grew_past_watch_.store(false, std::memory_order_relaxed);
  }
  // A large run that was given back is due for release: needs no lock, as the next two.
  bool ReleaseDue() const { return release_due_.load(std::memory_order_relaxed); }
  void EndReleaseDue([[maybe_unused]] Tiers& t) STRATA_REQUIRES(t.lock) {
    release_due_.store(false, std::memory_order_relaxed);
  }
  // For who asks at each slow call.
  bool GrewPastWatch() const { return grew_past_watch_.load(std::memory_order_relaxed); }
  Pages used_lately() const { return Pages(used_lately_.load(std::memory_order_relaxed)); }

 private:
  void NoteUse(Tiers& t) STRATA_REQUIRES(t.lock) {
    upkeep_.NoteUse(t);
    used_lately_.store(t.used.raw(), std::memory_order_relaxed);
  }

  SoftLimit& soft_limit_;
  Upkeep<Kernel>& upkeep_;
  Pages watch_{SIZE_MAX >> kPageShift};
  std::atomic<bool> grew_past_watch_{false};  // written under the lock, as the next two
  std::atomic<bool> release_due_{false};
  std::atomic<size_t> used_lately_{0};  // pages
};

template <PageKernel Kernel>
STRATA_NOINLINE void UseAccount<Kernel>::LookAtSoftLimit(Tiers& t, Pages untouched) {
  OnSideStack([&]() STRATA_NO_TSA {
    soft_limit_.Look(t, untouched, [&](Pages wanted) STRATA_NO_TSA {
      return BytesOf(upkeep_.ReleaseAnyway(t, wanted));
    });
  });
}

}  // namespace strata
