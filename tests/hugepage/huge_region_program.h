// An instruction program for HugeRegion against a page-by-page model. A violation ends the process.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "hugepage/huge_region.h"
#include "program_bytes.h"

namespace strata::test {

class HugeRegionProgram {
 public:
  explicit HugeRegionProgram(ProgramBytes bytes) : bytes_(bytes) { region_->Init(kFirst); }

  void Run() {
    while (!bytes_.done()) {
      Step();
      if (++steps_ % 8 == 0) Check();
    }
    Check();
  }

  size_t steps() const { return steps_; }

 private:
  static constexpr HugePageId kFirst{512};
  static constexpr size_t kPages = HugeRegion::kSize.raw() * kPagesPerHugePage;

  void Step() {
    switch (bytes_.Below(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Take(Pages(1 + bytes_.Below(bytes_.Below(4) == 0 ? 20'000 : 900)));
      case 4:
      case 5:
      case 6:
        return Give();
      case 7:
        return Grow();
      case 8:
        return Shrink();
      default:
        return Release();
    }
  }

  static size_t At(PageId p) { return (p - FirstPage(kFirst)).raw(); }

  // {at, length} of each free run.
  std::vector<std::pair<size_t, size_t>> FreeRuns() const {
    std::vector<std::pair<size_t, size_t>> free;
    size_t at = 0;
    for (const auto& [first, n] : runs_) {
      if (first > at) free.emplace_back(at, first - at);
      at = first + n;
    }
    if (at < kPages) free.emplace_back(at, kPages - at);
    return free;
  }

  void Use(size_t at, size_t n, bool* zeroed) {
    for (size_t h = at / kPagesPerHugePage; h <= (at + n - 1) / kPagesPerHugePage; ++h) {
      if (backed_[h]) *zeroed = false;
      backed_[h] = true;
    }
  }

  void Take(Pages n) {
    std::pair<size_t, size_t> best{0, ~size_t{0}};
    for (const auto& f : FreeRuns()) {
      if (f.second >= n.raw() && f.second < best.second) best = f;
    }
    const PageRun run = region_->TryTake(n);
    STRATA_CHECK(run.range.empty() == (best.second == ~size_t{0}));
    if (run.range.empty()) return;
    STRATA_CHECK(At(run.range.first) == best.first && run.range.length == n);
    bool zeroed = true;
    Use(best.first, n.raw(), &zeroed);
    STRATA_CHECK(zeroed == run.zeroed);
    runs_[best.first] = n.raw();
  }

  std::map<size_t, size_t>::iterator Pick() {
    if (runs_.empty()) return runs_.end();
    auto it = runs_.lower_bound(bytes_.Below(kPages));
    return it == runs_.end() ? runs_.begin() : it;
  }

  PageRange RangeOf(std::map<size_t, size_t>::iterator it) const {
    return {FirstPage(kFirst) + Pages(it->first), Pages(it->second)};
  }

  void Give() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    region_->Give(RangeOf(it));
    runs_.erase(it);
  }

  void Grow() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    const size_t more = bytes_.Below(2000), end = it->first + it->second;
    const auto next = std::next(it);
    const bool room = end + more <= (next == runs_.end() ? kPages : next->first);
    STRATA_CHECK(region_->TryGrow(RangeOf(it), Pages(it->second + more)) == room);
    if (!room || more == 0) return;
    bool zeroed = true;
    Use(end, more, &zeroed);
    it->second += more;
  }

  void Shrink() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    const size_t kept = 1 + bytes_.Below(it->second);
    region_->Shrink(RangeOf(it), Pages(kept));
    it->second = kept;
  }

  bool UsedIn(size_t hugepage) const {
    auto it = runs_.lower_bound((hugepage + 1) * kPagesPerHugePage);
    if (it == runs_.begin()) return false;
    --it;
    return it->first + it->second > hugepage * kPagesPerHugePage;
  }

  void Release() {
    const HugePages most(1 + bytes_.Below(16));
    const HugeRange r = region_->DetachForRelease(most);
    bool any = false;
    for (size_t h = 0; h < backed_.size(); ++h) any = any || (backed_[h] && !UsedIn(h));
    STRATA_CHECK(r.empty() == !any && r.length <= most);
    if (r.empty()) return;
    const bool released = bytes_.Below(4) != 0;
    for (size_t h = (r.first - kFirst).raw(); h < (r.end() - kFirst).raw(); ++h) {
      STRATA_CHECK(backed_[h] && !UsedIn(h));
      if (released) backed_[h] = false;
    }
    // While it is being released nobody can have it.
    const size_t at = (r.first - kFirst).raw() * kPagesPerHugePage;
    const PageRun run = region_->TryTake(Pages(1 + bytes_.Below(300)));
    if (!run.range.empty()) {
      const size_t taken = At(run.range.first), n = run.range.length.raw();
      STRATA_CHECK(taken + n <= at || taken >= at + PagesOf(r.length).raw());
      bool zeroed = true;
      Use(taken, n, &zeroed);
      runs_[taken] = n;
    }
    region_->FinishRelease(
        r, released ? HugeRegion::ReleaseResult::kDone : HugeRegion::ReleaseResult::kRefused);
    STRATA_CHECK(!region_->busy());
  }

  void Check() const {
    size_t used = 0, longest = 0;
    for (const auto& [at, n] : runs_) used += n;
    for (const auto& f : FreeRuns()) longest = std::max(longest, f.second);
    const size_t backed = static_cast<size_t>(std::count(backed_.begin(), backed_.end(), true));
    STRATA_CHECK(region_->used() == Pages(used) && region_->longest() == longest);
    STRATA_CHECK(region_->backed() == Pages(backed * kPagesPerHugePage));
    STRATA_CHECK(region_->free_backed() == Pages(backed * kPagesPerHugePage - used));
    size_t sum = 0;
    for (HugePageId p = kFirst; p < kFirst + HugeRegion::kSize; p += HugePages(1))
      sum += region_->used(p);
    STRATA_CHECK(sum == used);
  }

  ProgramBytes bytes_;
  std::unique_ptr<HugeRegion> region_ = std::make_unique<HugeRegion>();
  std::map<size_t, size_t> runs_;  // first page in the region -> pages
  std::vector<bool> backed_ = std::vector<bool>(HugeRegion::kSize.raw());
  size_t steps_ = 0;
};

}  // namespace strata::test
