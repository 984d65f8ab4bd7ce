// A gigabyte in which large runs are packed across hugepage boundaries, for programs whose large
// runs would waste the tails of their hugepages (Temeraire, Hunter et al., OSDI 2021, HugeRegion).
// Hugepages of it are backed when first used. Decides only; the page heap's lock guards it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "hugepage/page_bitmap.h"
#include "hugepage/page_run.h"

namespace strata {

class HugeRegion : public ListNode<HugeRegion> {
 public:
  static constexpr HugePages kSize{512};

  void Init(HugePageId first) {
    first_ = first;
    free_.SetRange(0, kPages);
    longest_ = kPages;
  }

  HugeRange range() const { return {first_, kSize}; }
  size_t longest() const { return longest_; }
  Pages used() const { return Pages(used_); }
  Pages backed() const { return Pages(backed_count_ * kPagesPerHugePage); }
  Pages free_backed() const { return backed() - used(); }
  bool backed(HugePageId p) const { return backed_.Test((p - first_).raw()); }
  size_t used(HugePageId p) const { return used_in_[(p - first_).raw()]; }

  // Best fit, then lowest address; empty when no run is long enough.
  PageRun TryTake(Pages n) {
    if (n.raw() > longest_) return {};
    size_t best = 0, best_length = kPages + 1, other = 0;
    free_.ForRuns([&](size_t at, size_t length) {
      if (length >= n.raw() && length < best_length) {
        if (best_length <= kPages) other = std::max(other, best_length);
        best = at;
        best_length = length;
      } else {
        other = std::max(other, length);
      }
    });
    longest_ = std::max(other, best_length - n.raw());
    return {{PageAt(best), n}, Use(best, n.raw())};
  }

  // Hugepages that a run of n pages would back, at most.
  static HugePages MostBacked(Pages n) { return HugeCeil(n) + HugePages(1); }

  void Give(PageRange r) { Unuse(At(r.first), r.length.raw()); }

  bool TryGrow(PageRange r, Pages new_length) {
    const size_t at = At(r.end()), more = (new_length - r.length).raw();
    if (at + more > kPages || !free_.AllIn(at, more)) return false;
    Use(at, more);
    longest_ = 0;
    free_.ForRuns([this](size_t, size_t length) { longest_ = std::max(longest_, length); });
    return true;
  }

  void Shrink(PageRange r, Pages new_length) {
    Unuse(At(r.first + new_length), (r.length - new_length).raw());
  }

  // Takes a run of free backed hugepages, at most n, out of use for release; empty when there is
  // none.
  HugeRange DetachForRelease(HugePages n) {
    for (size_t i = backed_.NextSet(0); i < kSize.raw(); i = backed_.NextSet(i + 1)) {
      size_t end = i;
      while (end < kSize.raw() && end - i < n.raw() && backed_.Test(end) && !busy_.Test(end) &&
             used_in_[end] == 0)
        ++end;
      if (end == i) continue;
      busy_.SetRange(i, end - i);
      free_.ClearRange(i * kPagesPerHugePage, (end - i) * kPagesPerHugePage);
      longest_ = 0;
      free_.ForRuns([this](size_t, size_t length) { longest_ = std::max(longest_, length); });
      return {first_ + HugePages(i), HugePages(end - i)};
    }
    return {};
  }

  // What the kernel said. kLost: it refused, and none of it is mapped any more.
  enum class ReleaseResult : uint8_t { kDone, kRefused, kLost };
  void FinishRelease(HugeRange r, ReleaseResult result) {
    const size_t i = (r.first - first_).raw(), n = r.length.raw();
    busy_.ClearRange(i, n);
    if (result == ReleaseResult::kLost) {  // as a run that stays for ever
      used_ += n * kPagesPerHugePage;
      std::fill_n(used_in_ + i, n, static_cast<uint16_t>(kPagesPerHugePage));
      return;
    }
    if (result == ReleaseResult::kDone) {
      backed_.ClearRange(i, n);
      backed_count_ -= n;
    }
    AddFree(i * kPagesPerHugePage, n * kPagesPerHugePage);
  }

  bool busy() const { return busy_.Any(); }
  // Being released; empty: none is.
  HugeRange FirstBusy() const {
    if (!busy_.Any()) return {first_, HugePages(0)};
    return {first_ + HugePages(busy_.NextSet(0)), HugePages(1)};
  }

 private:
  static constexpr size_t kPages = kSize.raw() * kPagesPerHugePage;

  PageId PageAt(size_t at) const { return FirstPage(first_) + Pages(at); }
  size_t At(PageId p) const { return (p - FirstPage(first_)).raw(); }

  // Calls f(hugepage, pages) for each hugepage that [at, at + n) meets.
  template <class F>
  static void ForHugePages(size_t at, size_t n, F f) {
    for (const size_t end = at + n; at < end;) {
      const size_t i = at / kPagesPerHugePage;
      const size_t in = std::min(end, (i + 1) * kPagesPerHugePage) - at;
      f(i, in);
      at += in;
    }
  }

  // True when all of the hugepages were unbacked, so the run reads as zero.
  bool Use(size_t at, size_t n) {
    bool zeroed = true;
    free_.ClearRange(at, n);
    used_ += n;
    ForHugePages(at, n, [&](size_t i, size_t in) {
      used_in_[i] = static_cast<uint16_t>(used_in_[i] + in);
      if (backed_.Test(i)) {
        zeroed = false;
      } else {
        backed_.SetRange(i, 1);
        ++backed_count_;
      }
    });
    return zeroed;
  }

  void Unuse(size_t at, size_t n) {
    STRATA_DCHECK(!free_.AnyIn(at, n));
    used_ -= n;
    ForHugePages(
        at, n, [&](size_t i, size_t in) { used_in_[i] = static_cast<uint16_t>(used_in_[i] - in); });
    AddFree(at, n);
  }

  void AddFree(size_t at, size_t n) {
    free_.SetRange(at, n);
    const size_t run = free_.RunBefore(at) + n + (at + n < kPages ? free_.RunFrom(at + n) : 0);
    longest_ = std::max(longest_, run);
  }

  HugePageId first_;
  size_t longest_ = 0;
  size_t used_ = 0;
  size_t backed_count_ = 0;
  PageBitmap<kSize.raw()> backed_;
  PageBitmap<kSize.raw()> busy_;  // backed, free, and being released: not in free_
  uint16_t used_in_[kSize.raw()] = {};
  PageBitmap<kPages> free_;
};

}  // namespace strata
