// Keeps the page heap away from the soft limit (docs/limits.md). Growth is counted inline, because
// a program can take a GiB between two looks of the background; the kernel is asked how much room
// is left only when a part of what it said last is used up, so a heap far from its limit asks a few
// times in its life. It gives back and refuses nothing: a page fault cures what it costs, and a
// program that is refused memory may die of it. Sits in hugepage; the page heap's lock guards it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/units.h"

namespace strata {

class SoftLimit {
 public:
  // Whether the kernel is to be asked, with so many pages charged to us.
  bool Due(Pages charged) const { return charged > allowance_; }

  // What fresh memory costs matters now: the last look found the limit near.
  bool near_soft_limit() const { return near_soft_limit_; }

  // Asks the kernel, with the lock dropped, and gives back what is missing: release(pages) returns
  // the bytes that it gave back. `untouched`: what was handed out just now, so that the kernel does
  // not count it yet.
  template <class Tiers, class Release>
  void Look(Tiers& tiers, Pages untouched, Release release) STRATA_REQUIRES(tiers.lock) {
    allowance_ = kNoLook;  // one thread looks at a time
    tiers.lock.Release();
    const int64_t headroom = tiers.kernel.Headroom();
    tiers.lock.Acquire();
    if (headroom == INT64_MAX) {
      near_soft_limit_ = false;
      return;  // without a limit nobody need look again
    }
    const Pages step = std::max(kLeastStep, tiers.Charged() / kStepsInHeap);
    const auto step_bytes = static_cast<int64_t>(BytesOf(step));
    const int64_t room = headroom - static_cast<int64_t>(BytesOf(untouched));
    near_soft_limit_ = room < 4 * step_bytes;
    if (room >= step_bytes) {
      // A quarter of the room: what was handed out before may be touched only now.
      const Pages quarter(static_cast<size_t>(room / 4) >> kPageShift);
      allowance_ = tiers.Charged() + std::max(quarter, step);
      return;
    }
    ++hits_;
    const auto wanted = static_cast<size_t>(2 * step_bytes - room);
    const size_t released = release(PagesCeil(wanted));
    if (released < wanted) relief_wanted_.store(wanted - released, std::memory_order_relaxed);
    allowance_ = tiers.Charged() + (room < 0 ? step / 4 : step);
  }

  // In the child of a fork: who was looking is not here to say what it saw.
  void Recover(Pages charged) {
    if (allowance_ == kNoLook) allowance_ = charged + kFirstLook;
  }

  // Bytes that should go back and are not the page heap's to give. Needs no lock.
  size_t relief_wanted() const { return relief_wanted_.load(std::memory_order_relaxed); }
  size_t TakeReliefWanted() { return relief_wanted_.exchange(0, std::memory_order_relaxed); }

  size_t hits() const { return hits_; }  // times that memory went back for it

 private:
  static constexpr Pages kFirstLook{1024};    // 8 MiB: a small program never reads cgroup files
  static constexpr Pages kLeastStep{128};     // 1 MiB
  static constexpr size_t kStepsInHeap = 64;  // a step is this part of what is charged
  static constexpr Pages kNoLook{SIZE_MAX >> kPageShift};  // one is under way, or there is no limit

  Pages allowance_ = kFirstLook;  // charged pages beyond it: look again
  bool near_soft_limit_ = false;
  size_t hits_ = 0;
  std::atomic<size_t> relief_wanted_{0};
};

}  // namespace strata
