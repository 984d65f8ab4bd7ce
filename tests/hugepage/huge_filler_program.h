// An instruction program for HugeFiller alone: takes, gives, resizes, donated tails, releases and
// collapses against a page-by-page model, which also checks the order in which hugepages are
// chosen. A violation ends the process.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hugepage/huge_filler.h"
#include "program_bytes.h"
#include "test_arena.h"

namespace strata::test {

class HugeFillerProgram {
 public:
  explicit HugeFillerProgram(ProgramBytes bytes) : bytes_(bytes) {}

  void Run() {
    while (!bytes_.done()) {
      Step();
      Check();
    }
    Finish();
  }

  size_t steps() const { return steps_; }

 private:
  struct Page {
    std::unique_ptr<HugeTracker> tracker = std::make_unique<HugeTracker>();
    std::string map = std::string(kPagesPerHugePage, '.');  // '.' free, 'u' used, 'x' released
    size_t runs = 0;
  };
  struct Taken {
    Pages length;
    bool tail;  // a donated head: the part of a large run
  };

  void Step() {
    ++steps_;
    switch (bytes_.Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        return Take();
      case 6:
      case 7:
      case 8:
      case 9:
      case 10:
        return Give();
      case 11:
        return bytes_.Byte() % 2 == 0 ? Grow() : Shrink();
      case 12:
        return Donate();
      case 13:
        return Release();
      case 14:
        return ReleaseEmpties();
      default:
        return Collapse();
    }
  }

  Page& PageAt(PageId p) { return pages_.at(HugePageOf(p).raw()); }
  static size_t Offset(PageId p) { return p.raw() % kPagesPerHugePage; }

  void Mark(PageRange r, char c) {
    if (r.empty()) return;
    Page& page = PageAt(r.first);
    for (size_t i = 0; i < r.length.raw(); ++i) {
      char& at = page.map[Offset(r.first) + i];
      STRATA_CHECK((at == 'u') != (c == 'u'));
      at = c;
    }
  }

  static size_t Longest(const Page& p) {
    size_t longest = 0, run = 0;
    for (char c : p.map) longest = std::max(longest, run = c == 'u' ? 0 : run + 1);
    return longest;
  }

  // The rank of a hugepage for a run of n pages, lower is better; none when it does not fit.
  size_t Rank(const Page& p, PlacementGroup group, size_t n) const {
    const HugeTracker& t = *p.tracker;
    const size_t longest = Longest(p);
    if (t.detached || t.empty() || t.group != group || longest < n) return kNone;
    const bool backed = p.map.find('.') != std::string::npos;
    const size_t kind = t.broken ? (backed ? 2 : 3) : t.donated ? 1 : 0;
    size_t chunk = 7;
    for (size_t reach = 1; chunk > 0 && p.runs > reach; reach *= 2) --chunk;
    const size_t within = kind == 1 ? longest * 8 : longest * 8 + chunk;
    return kind << 20 | within;
  }

  void Take() {
    PageRequest r{Pages(1)};
    if (bytes_.Byte() % 2 == 0) r.placement.lifetime = LifetimeClass::kLong;
    if (bytes_.Below(3) == 0) r.length = Pages(1 + bytes_.Below(bytes_.Below(3) == 0 ? 128 : 9));
    if (bytes_.Below(16) == 0) r.align = Pages(size_t{1} << bytes_.Below(5));
    const PlacementGroup group = GroupOf(r.placement);
    const size_t fit = r.length.raw() + r.align.raw() - 1;
    const bool avoid = bytes_.Below(8) == 0;
    size_t best = kNone;
    for (const auto& [h, p] : pages_) best = std::min(best, Rank(p, group, fit));
    if (avoid && best != kNone && best >> 20 >= 2) best = kNone;
    std::map<size_t, size_t> ranks;
    for (const auto& [h, p] : pages_) ranks[h] = Rank(p, group, fit);
    PageRun run =
        filler_.TryTake(r, avoid ? HugeFiller::Broken::kAvoid : HugeFiller::Broken::kAllow);
    STRATA_CHECK(run.range.empty() == (best == kNone));
    if (run.range.empty()) {
      STRATA_CHECK(filler_.Prepare());
      Page& p = pages_[next_];
      p.tracker->Init(HugePageId(next_++), bytes_.Byte() % 2 == 0 ? HugeTracker::Memory::kZero
                                                                  : HugeTracker::Memory::kTouched);
      run = filler_.Contribute(p.tracker.get(), r);
    } else {
      STRATA_CHECK(ranks.at(HugePageOf(run.range.first).raw()) == best);
    }
    STRATA_CHECK(run.range.length == r.length && run.range.first.raw() % r.align.raw() == 0);
    Mark(run.range, 'u');
    ++PageAt(run.range.first).runs;
    runs_[run.range.first.raw()] = {r.length, false};
  }

  void Donate() {
    if (pages_.size() > 40) return;
    STRATA_CHECK(filler_.Prepare());
    Page& p = pages_[next_];
    p.tracker->Init(HugePageId(next_), HugeTracker::Memory::kTouched);
    const Pages head(1 + bytes_.Below(kPagesPerHugePage - 1));
    filler_.ContributeTail(p.tracker.get(), head);
    const PageId first = FirstPage(HugePageId(next_++));
    Mark({first, head}, 'u');
    p.runs = 1;
    runs_[first.raw()] = {head, true};
  }

  std::map<size_t, Taken>::iterator Pick() {
    if (runs_.empty()) return runs_.end();
    auto it = runs_.lower_bound(bytes_.Below(next_ * kPagesPerHugePage));
    return it == runs_.end() ? runs_.begin() : it;
  }

  void Give() {
    const auto it = Pick();
    if (it != runs_.end()) GiveRun(it);
  }

  void GiveRun(std::map<size_t, Taken>::iterator it) {
    const PageRange r{PageId(it->first), it->second.length};
    runs_.erase(it);
    Mark(r, '.');
    Page& p = PageAt(r.first);
    --p.runs;
    const bool whole = p.runs == 0 && !p.tracker->broken && !p.tracker->detached;
    const auto left = filler_.Give(p.tracker.get(), r);
    STRATA_CHECK((left == HugeFiller::Left::kNothing) == whole);
    if (whole) pages_.erase(HugePageOf(r.first).raw());
  }

  void Grow() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    const PageRange r{PageId(it->first), it->second.length};
    const Pages more(bytes_.Below(10));
    Page& p = PageAt(r.first);
    const size_t end = Offset(r.first) + r.length.raw();
    const bool room = end + more.raw() <= kPagesPerHugePage &&
                      p.map.substr(end, more.raw()).find('u') == std::string::npos;
    STRATA_CHECK(filler_.TryGrow(p.tracker.get(), r, r.length + more) == room);
    if (!room) return;
    Mark({r.end(), more}, 'u');
    it->second.length += more;
  }

  void Shrink() {
    const auto it = Pick();
    if (it == runs_.end()) return;
    const PageRange r{PageId(it->first), it->second.length};
    const Pages kept(1 + bytes_.Below(r.length.raw()));
    filler_.Shrink(PageAt(r.first).tracker.get(), r, kept);
    Mark({r.first + kept, r.length - kept}, '.');
    it->second.length = kept;
  }

  // Detaches, lets others give runs back meanwhile, and then finishes.
  void Release() {
    HugeTracker* batch[4];
    const size_t n = filler_.DetachForRelease(batch, 1 + bytes_.Below(4),
                                              [](const HugeTracker&) { return true; });
    for (size_t i = 0; i < n; ++i) {
      STRATA_CHECK(batch[i]->free_backed() != 0);
      // Nothing that was left alone would have been cheaper to break.
      for (const auto& [h, p] : pages_) {
        const HugeTracker& t = *p.tracker;
        if (t.detached || t.empty() || t.free_backed() == 0 || t.broken != batch[i]->broken)
          continue;
        STRATA_CHECK(t.used() >= batch[i]->used());
      }
      STRATA_CHECK(i == 0 || batch[i - 1]->used() <= batch[i]->used());
    }
    std::vector<PageBitmap<kPagesPerHugePage>> pages;
    for (size_t i = 0; i < n; ++i) {
      pages.push_back(batch[i]->FreeBacked());
      filler_.Change(batch[i], [&] { batch[i]->broken = true; });
    }
    for (size_t i = bytes_.Below(4); i > 0; --i) Give();
    for (size_t i = 0; i < n; ++i) {
      if (bytes_.Below(8) != 0) {
        filler_.Change(batch[i], [&] { batch[i]->NoteReleased(pages[i]); });
        Page& p = pages_.at(batch[i]->page().raw());
        pages[i].ForRuns([&](size_t at, size_t length) {
          std::fill_n(p.map.begin() + static_cast<long>(at), length, 'x');
        });
      }
      STRATA_CHECK(filler_.Reattach(batch[i]) == HugeFiller::Left::kSome);  // broken ones stay
    }
  }

  void ReleaseEmpties() {
    HugeTracker* batch[4];
    const size_t n = filler_.DetachEmpties(batch, 4);
    for (size_t i = 0; i < n; ++i) {
      STRATA_CHECK(batch[i]->empty() && batch[i]->broken);
      filler_.Discard(batch[i]);
      pages_.erase(batch[i]->page().raw());
    }
  }

  void Collapse() {
    for (auto& [h, p] : pages_) {
      HugeTracker* t = p.tracker.get();
      if (!t->broken || t->empty()) continue;
      filler_.Detach(t);
      if (bytes_.Byte() % 2 == 0) {
        filler_.Change(t, [&] { t->NoteCollapsed(); });
        std::replace(p.map.begin(), p.map.end(), 'x', '.');
      }
      STRATA_CHECK(filler_.Reattach(t) == HugeFiller::Left::kSome);
      return;
    }
  }

  void Check() {
    size_t used = 0, released = 0, slack = 0;
    for (const auto& [h, p] : pages_) {
      const size_t u = static_cast<size_t>(std::count(p.map.begin(), p.map.end(), 'u'));
      const size_t x = static_cast<size_t>(std::count(p.map.begin(), p.map.end(), 'x'));
      STRATA_CHECK(p.tracker->used() == u && p.tracker->released() == x &&
                   p.tracker->allocations() == p.runs);
      STRATA_CHECK(p.tracker->longest() == Longest(p));
      used += u;
      released += x;
    }
    for (const auto& [first, t] : runs_) slack += t.tail ? kPagesPerHugePage - t.length.raw() : 0;
    STRATA_CHECK(filler_.hugepages() == pages_.size());
    STRATA_CHECK(filler_.used() == Pages(used) && filler_.released() == Pages(released));
    STRATA_CHECK(filler_.free_backed() ==
                 Pages(pages_.size() * kPagesPerHugePage - used - released));
    STRATA_CHECK(filler_.slack() == Pages(slack));
    size_t linked = 0, empties = 0;
    filler_.ForEach([&](const HugeTracker* t) { linked += !t->empty() && !t->detached; });
    for (const auto& [h, p] : pages_) empties += p.tracker->empty();
    STRATA_CHECK(linked + empties == pages_.size());
    STRATA_CHECK(filler_.has_empties() == (empties > 0));
  }

  void Finish() {
    while (!runs_.empty()) GiveRun(runs_.begin());
    while (filler_.has_empties()) ReleaseEmpties();
    Check();
    STRATA_CHECK(pages_.empty() && filler_.abandoned() == Pages(0));
  }

  static constexpr size_t kNone = ~size_t{0};

  ProgramBytes bytes_;
  TestArena meta_;
  HugeFiller filler_{meta_.arena()};
  std::map<size_t, Page> pages_;  // by hugepage
  std::map<size_t, Taken> runs_;  // by first page
  size_t next_ = 0;
  size_t steps_ = 0;
};

}  // namespace strata::test
