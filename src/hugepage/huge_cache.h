// Backed free hugepages kept for the next large request (Temeraire, Hunter et al., OSDI 2021,
// HugeCache). Keeps the published rule for its limit, which follows how far demand swings within a
// second, but releases nothing itself: what is above the limit waits for the background.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "hugepage/huge_page_map.h"
#include "hugepage/huge_range_tree.h"
#include "hugepage/min_max_window.h"

namespace strata {

class HugeCache {
 public:
  // `bias`: as HugeRangeTree's.
  explicit HugeCache(HugePageMap& map, size_t bias = 0)
      : free_(map, HugePageState::kCached, bias) {}

  HugePages size() const { return free_.total(); }
  HugePages limit() const { return limit_; }
  HugePages usage() const { return usage_; }
  size_t hits() const { return hits_; }
  size_t misses() const { return misses_; }

  // Backed hugepages; empty on a miss. The caller gets them elsewhere then, and says so with
  // NoteTaken.
  HugeRange TryTake(HugePages n, uint64_t now_ns, HugePages align = HugePages(1)) {
    const HugeRange r = free_.Take(n, align);
    if (r.empty()) {
      ++misses_;
      NoteMiss(now_ns);
      return r;
    }
    ++hits_;
    NoteTaken(n, now_ns);
    size_.Report(now_ns, size().raw());
    return r;
  }

  // Takes a part of the cached range that begins at `begin`, for a run that grows or joins several.
  HugeRange TakePart(HugePageId begin, HugeRange part, uint64_t now_ns) {
    free_.TakePart(begin, part);
    NoteTaken(part.length, now_ns);
    size_.Report(now_ns, size().raw());
    return part;
  }
  HugePages CachedAt(HugePageId p) const { return free_.LengthAt(p); }

  void NoteTaken(HugePages n, uint64_t now_ns) {
    usage_ += n;
    usage_window_.Report(now_ns, usage_.raw());
    off_peak_.Report(now_ns, 0);
  }

  // Hugepages that came from here or were noted as taken and go elsewhere now.
  void NoteGone(HugePages n, uint64_t now_ns) {
    usage_ -= n;
    usage_window_.Report(now_ns, usage_.raw());
    off_peak_.Report(now_ns, usage_window_.Max(now_ns, kCacheTimeNs) - usage_.raw());
  }

  void Give(HugeRange r, uint64_t now_ns) {
    NoteGone(r.length, now_ns);
    PutBack(r, now_ns);
  }

  // A range whose release was refused.
  void PutBack(HugeRange r, uint64_t now_ns) {
    free_.Insert(r);
    size_.Report(now_ns, size().raw());
  }

  // Lowers the limit when the last two seconds never needed it.
  void Adjust(uint64_t now_ns) {
    if (now_ns - limit_changed_ns_ <= 2 * kCacheTimeNs) return;
    limit_changed_ns_ = now_ns;
    const HugePages least(size_.Min(now_ns, 2 * kCacheTimeNs));
    if (least < limit_ / 5) return;
    const HugePages cut = std::max(least / 2, HugePages(1));
    limit_ = limit_ > kLeastLimit + cut ? limit_ - cut : kLeastLimit;
  }

  // Takes a range of at most n hugepages out for release.
  HugeRange TakeForRelease(HugePages n, uint64_t now_ns) {
    const HugeRange r = free_.TakeAtMost(n);
    size_.Report(now_ns, size().raw());
    return r;
  }

  template <class F>
  void ForEach(F f) const {
    free_.ForEach(f);
  }
  template <class F>
  void ForLonger(const HugePages& least, F f) const {
    free_.ForLonger(least, f);
  }

 private:
  static constexpr HugePages kLeastLimit{10};
  static constexpr uint64_t kCacheTimeNs = 1'000'000'000;

  // A miss soon after hugepages came back means that the cache was too small for the swing.
  void NoteMiss(uint64_t now_ns) {
    const size_t shrink = off_peak_.Max(now_ns, kCacheTimeNs);
    const size_t grow = usage_.raw() - usage_window_.Min(now_ns, kCacheTimeNs);
    const size_t dip = std::min(shrink, grow);
    const HugePages wanted(dip + dip / 10);
    if (wanted <= limit_) return;
    limit_ = wanted;
    limit_changed_ns_ = now_ns;
  }

  HugeRangeTree free_;
  HugePages limit_ = kLeastLimit;
  HugePages usage_;
  uint64_t limit_changed_ns_ = 0;
  size_t hits_ = 0;
  size_t misses_ = 0;
  MinMaxWindow usage_window_{2 * kCacheTimeNs};
  MinMaxWindow off_peak_{2 * kCacheTimeNs};
  MinMaxWindow size_{2 * kCacheTimeNs};
};

}  // namespace strata
