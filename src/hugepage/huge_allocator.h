// Address ranges that are mapped but not backed, in hugepages (Temeraire, Hunter et al., OSDI 2021,
// HugeAllocator). Grows by asking the kernel for chunks, and asks for hugepages on all but the
// start of the window, so that a small program pays for none. The page heap's lock guards it, also
// during Map: chunks are large, so that is rare.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/huge_range_tree.h"
#include "os/page_kernel.h"

namespace strata {

template <PageKernel Kernel>
class HugeAllocator {
 public:
  struct Options {
    bool hugepages;
    HugePages small_heap;
  };

  HugeAllocator(Kernel& kernel, HugePageMap& map, Options options)
      : kernel_(kernel), map_(map), options_(options), free_(map, HugePageState::kFree, Bias()) {}

  HugePages mapped() const { return mapped_; }
  HugePages free() const { return free_.total(); }
  HugeRange unadvised() const { return unadvised_; }  // mapped without asking for hugepages
  bool small_heap_advised() const { return options_.hugepages && grown_ && !leave_small_heap_; }
  HugePageId end() const { return next_; }  // nothing at or past it was ever mapped

  // Zeroed, unbacked hugepages; the caller sets their state. Empty when the kernel or the window
  // has no more.
  HugeRange Take(HugePages n, HugePages align) {
    HugeRange r = free_.Take(n, align);
    while (r.empty() && Grow(n, align)) r = free_.Take(n, align);
    return r;
  }

  // A part of the free range that begins at `begin`.
  HugeRange TakePart(HugePageId begin, HugeRange part) { return free_.TakePart(begin, part); }
  HugePages FreeAt(HugePageId p) const { return free_.LengthAt(p); }

  void Give(HugeRange r) { free_.Insert(r); }

  // Whether a Take of n hugepages ends the time in which the heap counts as small.
  bool EndsSmallHeap(HugePages n) const {
    return !grown_ && mapped_ != HugePages(0) && free_.longest() < n;
  }
  // The small heap stays as it is past that time, as its program touches little of what it takes;
  // until that changes.
  void LeaveSmallHeap() { leave_small_heap_ = true; }
  void EndLeavingSmallHeap() {
    leave_small_heap_ = false;
    if (options_.hugepages && grown_) AdviseSmallHeap();
  }

 private:
  static constexpr HugePages kFirstChunk{16};     // 32 MiB
  static constexpr HugePages kSmallChunk{32};     // 64 MiB
  static constexpr HugePages kLargestChunk{512};  // 1 GiB
  static constexpr HugePages kSkip{32};           // past a foreign mapping

  // The window may start anywhere; addresses are aligned to up to 1 GiB all the same.
  size_t Bias() const { return kernel_.past_gibibyte().raw(); }

  HugePages Chunk() const {
    if (mapped_ == HugePages(0)) return kFirstChunk;
    return std::min(std::max(kSmallChunk, mapped_ / 8), kLargestChunk);
  }

  // Maps enough for n aligned hugepages, if anything can be had. True: try again.
  bool Grow(HugePages n, HugePages align) {
    while (next_.raw() < map_.window().raw()) {
      // What is certain to hold n aligned hugepages when mapping begins at next_.
      const size_t start = RoundUp(next_.raw() + Bias(), align.raw()) - Bias();
      if (start + n.raw() > map_.window().raw()) return false;
      const HugePages least = HugePageId(start) + n - next_;
      const HugePages room = HugePageId(map_.window().raw()) - next_;
      HugeRange r{next_, std::min(std::max(Chunk(), least), room)};
      if (!map_.Cover(r)) return false;
      MapResult result = kernel_.Map(r);
      if (result == MapResult::kNoMemory && least < r.length) {
        r.length = least;
        result = kernel_.Map(r);
      }
      if (result == MapResult::kMapped) {
        Add(r);
        return true;
      }
      if (result == MapResult::kNoMemory) return false;
      next_ = HugePageId(std::min((next_ + kSkip).raw(), map_.window().raw()));
    }
    return false;
  }

  void Add(HugeRange r) {
    const bool first = mapped_ == HugePages(0);
    if (first) {
      unadvised_ = {r.first, std::min(options_.small_heap, r.length)};
      for (HugePageId p = unadvised_.first; p < unadvised_.end(); p += HugePages(1))
        map_[p].unadvised = true;
    }
    const HugeRange huge = first ? HugeRange{unadvised_.end(), r.length - unadvised_.length} : r;
    if (options_.hugepages) {
      if (!huge.empty()) kernel_.AdviseHuge(huge);
      // The program is not small after all: what it has not touched yet, and what it gives back,
      // may be huge.
      if (!first && !grown_ && !leave_small_heap_) AdviseSmallHeap();
    }
    grown_ = !first;
    mapped_ += r.length;
    next_ = r.end();
    free_.Insert(r);
  }

  void AdviseSmallHeap() {
    for (HugePageId p = unadvised_.first; p < unadvised_.end(); p += HugePages(1)) {
      if (!map_[p].no_huge) kernel_.AdviseHuge({p, HugePages(1)});
    }
  }

  Kernel& kernel_;
  HugePageMap& map_;
  Options options_;
  HugeRangeTree free_;
  HugePages mapped_;
  HugePageId next_;
  HugeRange unadvised_;  // the start of the first chunk
  bool grown_ = false;   // past the first chunk
  bool leave_small_heap_ = false;
};

}  // namespace strata
