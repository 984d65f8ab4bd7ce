// A small working kernel for tests: it keeps the state of every native page of a small window (what
// is in it, whether memory stands behind it), hugepages with advice, splitting and collapsing as
// Linux does them (a hugepage part of which was released holds all its memory until it is split), a
// settable clock, calls that fail on demand, and hooks that run in the middle of a release, a
// rebuild, a backing or a look at the limit. Wrong calls end the test at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "os/page_kernel.h"

namespace strata {

class FakeKernel {
 public:
  enum class Advice : uint8_t { kNone, kHuge, kNoHuge };

  explicit FakeKernel(HugePages window)
      : window_(window), huge_(window.raw()), native_(window.raw() * kNativePerHugePage) {}

  // --- What the page heap calls.
  HugePages window() const { return window_; }

  HugePages past_gibibyte() const { return past; }

  MapResult Map(HugeRange r) {
    std::lock_guard hold(mutex_);
    ++map_calls;
    STRATA_CHECK(!r.empty() && r.end().raw() <= window_.raw());
    if (Fails(&fail_map_in) || mapped_ + r.length > map_limit) return MapResult::kNoMemory;
    for (size_t i = r.first.raw(); i < r.end().raw(); ++i) {
      if (huge_[i].foreign) return MapResult::kOccupied;
      STRATA_CHECK(!huge_[i].mapped);
    }
    for (size_t i = r.first.raw(); i < r.end().raw(); ++i) huge_[i].mapped = true;
    mapped_ += r.length;
    return MapResult::kMapped;
  }

  // Of 16 or 64 KiB, as on aarch64; contents are still kept by native pages.
  void SetPageBytes(size_t bytes) { page_bytes_ = bytes; }
  size_t page_bytes() const { return page_bytes_; }

  bool Release(const NativeRange* list, size_t n) {
    if (on_release) on_release();
    std::lock_guard hold(mutex_);
    ++release_calls;
    STRATA_CHECK(n > 0);
    if (Fails(&fail_release_in)) return false;
    for (size_t i = 0; i < n; ++i) {
      STRATA_CHECK(list[i].bytes > 0 && (list[i].offset | list[i].bytes) % page_bytes_ == 0);
      for (size_t p = list[i].offset >> kNativePageShift;
           p < (list[i].offset + list[i].bytes) >> kNativePageShift; ++p) {
        ReleasePage(p);
      }
    }
    for (size_t i = 0; i < n; ++i) SettleReleased(list[i]);
    return true;
  }

  void AdviseHuge(HugeRange r) { Advise(r, Advice::kHuge); }
  void AdviseNoHuge(HugeRange r) { Advise(r, Advice::kNoHuge); }

  bool SplitHugePage(HugePageId h, NativeRange used) {
    std::lock_guard hold(mutex_);
    ++splits;
    STRATA_CHECK(used.bytes == kNativePageSize && used.offset >> kHugePageShift == h.raw());
    if (refuse_split || ignore_split) return !refuse_split;
    if (frees_zero_pages && huge_[h.raw()].whole) DropZeros(h.raw());
    Split(h.raw());
    return true;
  }

  bool Collapse(HugeRange range) {
    if (on_collapse) on_collapse();
    std::lock_guard hold(mutex_);
    ++collapse_calls;
    for (HugePageId h = range.first; h < range.end(); h += HugePages(1)) {
      now_ns_ += collapse_ns;
      Huge& huge = huge_[h.raw()];
      STRATA_CHECK(huge.mapped);
      if (huge.advice == Advice::kNoHuge || refuse_collapse || h == unmovable ||
          Fails(&fail_collapse_in))
        return false;
      ++collapses;
      Fill(h.raw());
    }
    return true;
  }

  bool Populate(HugeRange range) {
    if (on_populate) on_populate();
    std::lock_guard hold(mutex_);
    ++populates;
    for (HugePageId h = range.first; h < range.end(); h += HugePages(1)) {
      now_ns_ += populate_ns + waits_ns;
      cpu_ns_ += populate_ns;
      STRATA_CHECK(huge_[h.raw()].mapped && huge_[h.raw()].present == 0);
      if (refuse_populate && h + HugePages(1) == range.end()) return false;
      Fill(h.raw());
      if (huge_[h.raw()].advice != Advice::kHuge) huge_[h.raw()].whole = false;
    }
    return true;
  }

  uint64_t Touch(size_t native) {
    std::lock_guard hold(mutex_);
    ++touches;
    Huge& huge = huge_[native / kNativePerHugePage];
    STRATA_CHECK(huge.mapped && native_[native].tag == 0);
    const bool fills = huge.advice == Advice::kHuge && huge.present == 0;
    BackOnWrite(native);
    if (may_not_ask_time) return 0;
    now_ns_ += fills ? populate_ns : 1'000;
    return fills ? populate_ns : 1'000;
  }

  HugePages Move(HugeRange from, HugePageId to) {
    if (on_move) on_move();
    std::lock_guard hold(mutex_);
    HugePages moved;
    for (; moved < std::min(from.length, most_moved); moved += HugePages(1)) {
      const size_t a = (from.first + moved).raw(), b = (to + moved).raw();
      STRATA_CHECK(huge_[a].mapped && huge_[b].mapped && huge_[a].advice == huge_[b].advice);
      for (size_t p = b * kNativePerHugePage; p < (b + 1) * kNativePerHugePage; ++p) ReleasePage(p);
      Split(b);
      for (size_t i = 0; i < kNativePerHugePage; ++i)
        std::swap(native_[a * kNativePerHugePage + i], native_[b * kNativePerHugePage + i]);
      std::swap(huge_[a].whole, huge_[b].whole);
      std::swap(huge_[a].present, huge_[b].present);
    }
    return moved;
  }

  bool IsLost(HugeRange r) const { return r.first < lost.end() && lost.first < r.end(); }

  bool CanCollapse() const { return can_collapse; }
  bool Resident(HugePageId h, unsigned char* one_byte_a_native_page) {
    if (on_resident) on_resident();
    std::lock_guard hold(mutex_);
    ++resident_calls;
    if (!tells_resident) return false;
    for (size_t i = 0; i < kNativePerHugePage; ++i)
      one_byte_a_native_page[i] = native_[h.raw() * kNativePerHugePage + i].InCore();
    return true;
  }

  size_t NonZero(HugePageId h, const unsigned char* resident, size_t most) {
    if (on_nonzero) on_nonzero();
    std::lock_guard hold(mutex_);
    now_ns_ += nonzero_ns;
    size_t n = 0;
    for (size_t i = 0; i < kNativePerHugePage && n <= most; ++i) {
      if ((resident[i] & 1) == 0) continue;
      const size_t native = h.raw() * kNativePerHugePage + i;
      n += native_[native].tag != 0;
      if (native_[native].tag == 0) continue;
      BackOnWrite(native);  // swapped in again
    }
    return unreadable == h ? SIZE_MAX : n;
  }
  bool FreesZeroPages() const { return frees_zero_pages; }

  uint64_t CoarseNowNs() { return NowNs(); }
  uint64_t StartOwnCpu() {
    std::lock_guard hold(mutex_);
    return cpu_ns_;
  }
  uint64_t OwnCpuSince(uint64_t start) {
    std::lock_guard hold(mutex_);
    return std::max<uint64_t>(cpu_ns_ - start, 1);
  }
  uint64_t NowNs() {
    std::lock_guard hold(mutex_);
    return now_ns_;
  }

  int64_t Headroom() {
    if (on_headroom) on_headroom();
    std::lock_guard hold(mutex_);
    ++looks;
    if (soft_limit == 0) return INT64_MAX;
    return static_cast<int64_t>(soft_limit) - static_cast<int64_t>(physical_bytes());
  }

  // --- What tests set and ask.
  void Advance(uint64_t ms) {
    std::lock_guard hold(mutex_);
    now_ns_ += ms * 1'000'000;
  }

  void Occupy(HugeRange r) {
    for (size_t i = r.first.raw(); i < r.end().raw(); ++i) huge_[i].foreign = true;
  }

  // The program writes `tag` (not 0) into a native page.
  void Write(size_t native, uint32_t tag) {
    std::lock_guard hold(mutex_);
    Huge& huge = huge_[native / kNativePerHugePage];
    STRATA_CHECK(huge.mapped && tag != 0);
    BackOnWrite(native);
    native_[native].tag = tag;
  }

  // To the swap: its memory is free, and what was in it comes back when it is read or written.
  void SwapOut(size_t native) {
    std::lock_guard hold(mutex_);
    const uint32_t tag = native_[native].tag;
    STRATA_CHECK(!huge_[native / kNativePerHugePage].whole);
    ReleasePage(native);
    native_[native].tag = tag;
  }

  uint32_t Read(size_t native) const { return native_[native].tag; }
  bool Present(size_t native) const { return native_[native].present; }
  Advice advice(HugePageId h) const { return huge_[h.raw()].advice; }
  bool whole(HugePageId h) const { return huge_[h.raw()].whole; }
  HugePages mapped() const { return mapped_; }
  size_t resident_bytes() const { return Resident() << kNativePageShift; }  // what RSS says
  size_t physical_bytes() const {
    return physical_ << kNativePageShift;
  }  // what a memory cgroup says

  // A call fails when its number counts down to zero; negative: never.
  int fail_map_in = -1, fail_release_in = -1, fail_collapse_in = -1;
  bool may_not_ask_time = false;
  bool tells_resident = false;  // else as under a filter; for tests that write what they take
  bool can_collapse = true;
  bool frees_zero_pages = false;
  bool refuse_split = false;        // as of locked memory
  bool ignore_split = false;        // without a word, as while a child of a fork has the memory too
  HugePageId unreadable{SIZE_MAX};  // the program keeps it from being read
  uint64_t nonzero_ns = 0;          // that a count takes
  bool refuse_collapse = false, refuse_populate = false;  // the latter: the last of a range
  HugePageId unmovable{SIZE_MAX};                         // not to be rebuilt
  HugeRange lost;
  HugePages past;
  HugePages map_limit{~size_t{0} >> 1};
  HugePages most_moved{~size_t{0} >> 1};                  // by one call
  uint64_t collapse_ns = 500'000, populate_ns = 100'000;  // a hugepage
  uint64_t waits_ns = 0;  // for a CPU, on top of each that is populated
  std::function<void()> on_release, on_collapse, on_populate, on_headroom, on_move, on_resident,
      on_nonzero;         // in their midst
  size_t soft_limit = 0;  // of physical memory; 0: none
  size_t looks = 0;       // at it
  size_t map_calls = 0, release_calls = 0, advise_calls = 0, splits = 0, collapses = 0,
         collapse_calls = 0, populates = 0, touches = 0, resident_calls = 0;

 private:
  size_t page_bytes_ = kNativePageSize;
  struct Huge {
    bool mapped = false, foreign = false;
    bool whole = false;  // backed by one hugepage, not yet split
    Advice advice = Advice::kNone;
    uint16_t present = 0;  // native pages mapped in
  };
  struct Native {
    uint32_t tag = 0;  // what the program wrote; 0: reads as zero
    bool present = false;
    bool zeros = false;  // not present: the kernel's one page of zeros stands there

    bool InCore() const { return present || zeros; }  // as mincore says
  };

  static bool Fails(int* countdown) { return *countdown >= 0 && (*countdown)-- == 0; }

  size_t Resident() const {
    size_t n = 0;
    for (const Huge& h : huge_) n += h.present;
    return n;
  }

  void Advise(HugeRange r, Advice advice) {
    std::lock_guard hold(mutex_);
    ++advise_calls;
    for (size_t i = r.first.raw(); i < r.end().raw(); ++i) {
      STRATA_CHECK(huge_[i].mapped);
      huge_[i].advice = advice;
    }
  }

  void BackOnWrite(size_t native) {
    Huge& huge = huge_[native / kNativePerHugePage];
    if (huge.advice == Advice::kHuge && huge.present == 0) Fill(native / kNativePerHugePage);
    if (native_[native].present) return;
    native_[native].present = true;
    native_[native].zeros = false;
    ++huge.present;
    if (!huge.whole) ++physical_;  // an unsplit hugepage still has the frame
  }

  void Fill(size_t h) {
    Huge& huge = huge_[h];
    physical_ += kNativePerHugePage - (huge.whole ? kNativePerHugePage : huge.present);
    huge.whole = true;
    huge.present = kNativePerHugePage;
    for (size_t p = h * kNativePerHugePage; p < (h + 1) * kNativePerHugePage; ++p) {
      native_[p].present = true;
      native_[p].zeros = false;
    }
  }

  void ReleasePage(size_t native) {
    Huge& huge = huge_[native / kNativePerHugePage];
    STRATA_CHECK(huge.mapped);
    if (native_[native].present) {
      --huge.present;
      if (!huge.whole) --physical_;
    }
    native_[native] = {};
  }

  // A hugepage of which nothing is mapped any more is freed.
  void SettleReleased(NativeRange r) {
    for (size_t h = r.offset >> kHugePageShift; h <= (r.offset + r.bytes - 1) >> kHugePageShift;
         ++h) {
      if (huge_[h].whole && huge_[h].present == 0) Split(h);
    }
  }

  // Of a hugepage that is still whole, which has the frame whatever is mapped.
  void DropZeros(size_t h) {
    for (size_t p = h * kNativePerHugePage; p < (h + 1) * kNativePerHugePage; ++p) {
      if (native_[p].tag != 0 || !native_[p].present) continue;
      native_[p].present = false;
      native_[p].zeros = true;
      --huge_[h].present;
    }
  }

  void Split(size_t h) {
    if (!huge_[h].whole) return;
    huge_[h].whole = false;
    physical_ -= kNativePerHugePage - huge_[h].present;
  }

  std::mutex mutex_;
  HugePages window_;
  HugePages mapped_;
  uint64_t now_ns_ = 1'000'000'000'000;
  uint64_t cpu_ns_ = 0;
  size_t physical_ = 0;  // native pages
  std::vector<Huge> huge_;
  std::vector<Native> native_;
};

static_assert(PageKernel<FakeKernel>);

}  // namespace strata
