// One hugepage of the filler: which of its 256 pages are free, which of the free ones were given
// back to the kernel, which were never touched, its longest free run and how many allocations it
// holds (Temeraire, Hunter et al., OSDI 2021, HugeFiller). Knows no list and no kernel; the
// filler's owner holds the page heap's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "hugepage/page_bitmap.h"
#include "hugepage/placement_group.h"

namespace strata {

class HugeTracker;

// Hangs a hugepage on a second list: by what its release would break.
struct ReleaseRank : ListNode<ReleaseRank> {
  static constexpr uint8_t kNone = 0xff;
  HugeTracker* tracker = nullptr;
  uint8_t list = kNone;
};

class HugeTracker : public ListNode<HugeTracker> {
 public:
  static constexpr uint16_t kNoList = 0xffff;

  // kZero: never touched since it was mapped or released.
  enum class Memory : uint8_t { kZero, kTouched };

  void Init(HugePageId page, Memory memory) {
    page_ = page;
    free_.SetRange(0, kPagesPerHugePage);
    if (memory == Memory::kTouched) touched_.SetRange(0, kPagesPerHugePage);
    untouched_count_ = memory == Memory::kZero ? kPagesPerHugePage : 0;
  }

  HugePageId page() const { return page_; }
  size_t longest() const { return longest_; }
  size_t allocations() const { return allocations_; }
  size_t used() const { return used_; }
  size_t released() const { return released_count_; }  // free pages that are not backed
  size_t free_backed() const { return kPagesPerHugePage - used_ - released_count_; }
  size_t gone() const { return gone_count_; }  // native pages not backed though their run is in use
  bool empty() const { return used_ == 0; }
  PageId PageAt(size_t at) const { return FirstPage(page_) + Pages(at); }
  size_t OffsetIn(PageId p) const { return (p - FirstPage(page_)).raw(); }

  struct Taken {
    size_t at;
    bool zeroed;
  };

  // Best fit, then lowest address. Needs a free run of n + align - 1 pages.
  Taken Take(size_t n, size_t align) {
    const size_t at = align == 1 ? PickRun(n) : PickAligned(n, align);
    ++allocations_;
    return {at, Use(at, n)};
  }

  // Marks [at, at + n), which must be free, as one more allocation.
  bool TakeAt(size_t at, size_t n) {
    ++allocations_;
    const bool zeroed = Use(at, n);
    longest_ = static_cast<uint16_t>(free_.LongestRun());
    return zeroed;
  }

  void Give(size_t at, size_t n) {
    STRATA_DCHECK(allocations_ > 0);
    --allocations_;
    Unuse(at, n);
  }

  // An allocation at `at` of n pages becomes longer in place, or nothing changes.
  bool TryGrow(size_t at, size_t n, size_t new_n) {
    const size_t more = new_n - n;
    if (at + new_n > kPagesPerHugePage || !free_.AllIn(at + n, more)) return false;
    Use(at + n, more);
    longest_ = static_cast<uint16_t>(free_.LongestRun());
    return true;
  }

  void Shrink(size_t at, size_t n, size_t new_n) { Unuse(at + new_n, n - new_n); }

  // Release of the free pages, in two steps with the lock dropped between: the tracker is off all
  // lists, so pages can become free meanwhile, but none is taken.
  PageBitmap<kPagesPerHugePage> FreeBacked() const { return free_.Minus(released_); }
  // Those of them that lie in stretches of `whole` pages of which all are free: what the kernel can
  // give back where its own pages are that large. A stretch that was given back and used again in
  // part counts when that part is free.
  PageBitmap<kPagesPerHugePage> FreeBackedIn(size_t whole) const {
    PageBitmap<kPagesPerHugePage> pages;
    for (size_t at = 0; at < kPagesPerHugePage; at += whole) {
      if (free_.AllIn(at, whole)) pages.SetRange(at, whole);
    }
    return pages.Minus(released_);
  }
  void NoteReleased(const PageBitmap<kPagesPerHugePage>& pages) {
    released_ = released_.Or(pages);
    touched_ = touched_.Minus(pages);
    NoteMemoryChanged();
    released_count_ = static_cast<uint16_t>(released_.Count());
    CountUntouched();
  }

  // Native pages inside runs in use that their owner gave back, or will touch again.
  void NoteGone(size_t native, size_t n) {
    gone_.SetRange(native, n);
    gone_count_ = static_cast<uint16_t>(gone_.Count());
    NoteMemoryChanged();
  }
  void NoteReused(size_t native, size_t n) {
    if (gone_count_ == 0) return;
    gone_.ClearRange(native, n);
    gone_count_ = static_cast<uint16_t>(gone_.Count());
  }
  // What a survey of the spans found: native pages inside runs in use on which nothing lives. Each
  // survey counts anew.
  void NoteIdle(size_t n, uint32_t survey) {
    if (survey_ != survey) idle_ = 0;
    survey_ = survey;
    idle_ = static_cast<uint16_t>(std::min(idle_ + n, kNativePerHugePage));
  }
  size_t IdleAt(uint32_t survey) const { return survey_ == survey ? idle_ : 0; }

  // The tick in which runs were last taken from it, or memory in them was touched again.
  void NoteFilled(uint32_t tick) { filled_ = tick; }
  uint32_t filled() const { return filled_; }

  // Of the native pages in use, those that the kernel has memory for; one byte for each of all.
  size_t TouchedInUse(const unsigned char* resident) const {
    size_t n = 0;
    for (size_t i = free_.NextClear(0); i < kPagesPerHugePage; i = free_.NextClear(i + 1)) {
      for (size_t k = 0; k < kNativePerPage; ++k) n += resident[i * kNativePerPage + k] & 1;
    }
    return n;
  }
  size_t NativeInUse() const { return used_ * kNativePerPage - gone_count_; }

  size_t GoneIn(size_t native, size_t n) const {
    return gone_count_ == 0 ? 0 : gone_.CountIn(native, n);
  }
  // Calls f(native, n) for each run of native pages in a range that are not gone.
  template <class F>
  void ForNotGone(size_t native, size_t n, F f) const {
    for (const size_t end = native + n; native < end;) {
      const size_t from = gone_.NextClear(native);
      if (from >= end) return;
      native = std::min(gone_.NextSet(from), end);
      f(from, native - from);
    }
  }

  // The kernel rebuilt the hugepage: everything is backed again (and what was not still reads as
  // zero).
  void NoteCollapsed() {
    released_ = {};
    gone_ = {};
    released_count_ = gone_count_ = 0;
    NoteMemoryChanged();
    broken = split = begun_small = false;
    CountUntouched();
  }

  // A native page that is in use and backed; kNativePerHugePage when there is none.
  size_t FirstUsedNative() const {
    for (size_t i = free_.NextClear(0); i < kPagesPerHugePage; i = free_.NextClear(i + 1)) {
      for (size_t native = i * kNativePerPage; native < (i + 1) * kNativePerPage; ++native) {
        if (!gone_.Test(native)) return native;
      }
    }
    return kNativePerHugePage;
  }
  size_t untouched() const { return untouched_count_; }  // free pages that are backed and zero

  // Where it hangs; the filler's.
  uint16_t list = kNoList;
  ReleaseRank rank;
  PlacementGroup group = PlacementGroup::kOthers;  // whose runs it serves
  bool donated = false;      // tail of a large run that no small run has landed in yet
  bool broken = false;       // part of it was released: it is no hugepage any more
  bool split = false;        // and the kernel took it apart
  bool begun_small = false;  // it is broken since it began as single pages
  bool sparse = false;       // and nothing was released since
  uint8_t lent_to = 0;       // while lent: to whom
  bool detached = false;  // off all lists while the lock is dropped; who detached it puts it back
  uint16_t donated_head = 0;  // pages of the large run that this hugepage ends; 0: none (any more)
  uint16_t abandoned = 0;  // pages of a donated head whose run went while small runs keep the rest
  uint32_t collapse_after_s = 0;
  uint32_t worth_since_s = 0;  // found worth rebuilding then, and nothing went since; 0: not
  uint32_t looked_at = 0;      // the round in which it was last looked at for that

 private:
  void NoteMemoryChanged() {
    sparse = false;
    worth_since_s = 0;
  }
  // Marks pages used; true when none was ever touched. The longest run is the caller's to mend.
  bool Use(size_t at, size_t n) {
    STRATA_DCHECK(free_.AllIn(at, n));
    free_.ClearRange(at, n);
    used_ = static_cast<uint16_t>(used_ + n);
    if (untouched_count_ != 0) {
      const size_t others = touched_.Or(released_).CountIn(at, n);
      untouched_count_ = static_cast<uint16_t>(untouched_count_ - (n - others));
    }
    if (released_count_ != 0) {
      released_count_ = static_cast<uint16_t>(released_count_ - released_.CountIn(at, n));
      released_.ClearRange(at, n);
    }
    const bool zeroed = !touched_.AnyIn(at, n);
    touched_.SetRange(at, n);
    return zeroed;
  }

  void Unuse(size_t at, size_t n) {
    STRATA_DCHECK(!free_.AnyIn(at, n));
    free_.SetRange(at, n);
    used_ = static_cast<uint16_t>(used_ - n);
    const size_t run =
        free_.RunBefore(at) + n + (at + n < kPagesPerHugePage ? free_.RunFrom(at + n) : 0);
    longest_ = static_cast<uint16_t>(std::max<size_t>(longest_, run));
    if (gone_count_ != 0) AbsorbGone(at, n);
  }

  // Pages of which both native pages are gone are now free and released; half-gone ones count as
  // backed.
  void AbsorbGone(size_t at, size_t n) {
    for (size_t i = at; i < at + n; ++i) {
      if (gone_.AllIn(i * kNativePerPage, kNativePerPage)) {
        released_.SetRange(i, 1);
        ++released_count_;
      }
    }
    gone_.ClearRange(at * kNativePerPage, n * kNativePerPage);
    gone_count_ = static_cast<uint16_t>(gone_.Count());
  }

  void CountUntouched() {
    untouched_count_ = static_cast<uint16_t>(free_.Minus(touched_).Minus(released_).Count());
  }

  // Best fit, lowest address. Between few allocations there are few runs, which are looked at in
  // turn; of many, those that fit exactly are found all at once.
  size_t PickRun(size_t n) {
    if (allocations_ <= kFewAllocations) return PickFromAll(n);
    const auto exact = free_.RunsOfExactly(n);
    const size_t at = exact.NextSet(0);
    if (at == kPagesPerHugePage) return PickFromAll(n);
    // The longest run changes only when this was the only one of that length.
    if (n == longest_ && exact.NextSet(at + 1) == kPagesPerHugePage) {
      auto rest = free_;
      rest.ClearRange(at, n);
      longest_ = static_cast<uint16_t>(rest.LongestRun());
    }
    return at;
  }

  size_t PickFromAll(size_t n) {
    size_t best = 0, best_length = kPagesPerHugePage + 1, other = 0;
    free_.ForRuns([&](size_t at, size_t length) {
      if (length >= n && length < best_length) {
        if (best_length <= kPagesPerHugePage) other = std::max(other, best_length);
        best = at;
        best_length = length;
      } else {
        other = std::max(other, length);
      }
    });
    STRATA_CHECK(best_length <= kPagesPerHugePage);
    longest_ = static_cast<uint16_t>(std::max(other, best_length - n));
    return best;
  }

  size_t PickAligned(size_t n, size_t align) {
    size_t best = 0, best_length = kPagesPerHugePage + 1;
    free_.ForRuns([&](size_t at, size_t length) {
      const size_t start = RoundUp(at, align);
      if (start + n <= at + length && length < best_length) {
        best = start;
        best_length = length;
      }
    });
    STRATA_CHECK(best_length <= kPagesPerHugePage);
    auto rest = free_;
    rest.ClearRange(best, n);
    longest_ = static_cast<uint16_t>(rest.LongestRun());
    return best;
  }

  static constexpr size_t kFewAllocations = 4;

  HugePageId page_;
  uint16_t longest_ = kPagesPerHugePage;
  uint16_t allocations_ = 0;
  uint16_t used_ = 0;
  uint16_t released_count_ = 0;
  uint16_t gone_count_ = 0;
  uint16_t untouched_count_ = kPagesPerHugePage;
  uint16_t idle_ = 0;
  uint32_t survey_ = 0;
  uint32_t filled_ = 0;
  PageBitmap<kPagesPerHugePage> free_;
  PageBitmap<kPagesPerHugePage> released_;  // of the free pages
  PageBitmap<kPagesPerHugePage> touched_;   // may hold something other than zero
  PageBitmap<kNativePerHugePage> gone_;     // of the native pages in use
};

}  // namespace strata
