// Free ranges of hugepages: a treap by address, each node knowing the longest range below it,
// neighbours merged (Hunter et al., OSDI 2021, HugeAllocator). Nodes live in the records of the
// hugepages themselves, so inserting cannot fail.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "hugepage/huge_page_map.h"

namespace strata {

class HugeRangeTree {
 public:
  // Ranges in this tree have this state in the map.
  // `bias`: hugepages from where addresses are aligned to the window's start.
  HugeRangeTree(HugePageMap& map, HugePageState state, size_t bias = 0)
      : map_(map), state_(state), bias_(bias) {}

  HugePages total() const { return total_; }
  HugePages longest() const { return HugePages(LongestOf(root_)); }

  void Insert(HugeRange r) {
    total_ += r.length;
    map_.SetState(r, state_);
    if (r.first.raw() > 0) {
      const HugePageRecord* before = map_.Find(r.first - HugePages(1));
      if (before != nullptr && before->state == state_) {
        const HugePageId first{before->first};
        r = {first, r.length + HugePages(map_[first].length)};
        Remove(static_cast<uint32_t>(first.raw()));
      }
    }
    const HugePageRecord* after = map_.Find(r.end());
    if (after != nullptr && after->state == state_) {
      const uint32_t next = static_cast<uint32_t>(r.end().raw());
      r.length += HugePages(after->length);
      Remove(next);
    }
    AddNode(r);
  }

  // The range that begins at p, which must be in this tree.
  HugePages LengthAt(HugePageId p) const { return HugePages(map_[p].length); }

  // n hugepages aligned to `align` from a range that fits, preferring small ranges, then low
  // addresses. Their state is the caller's to set. Empty when nothing fits.
  HugeRange Take(HugePages n, HugePages align) {
    if (align == HugePages(1)) {
      const uint32_t found = BestFit(static_cast<uint32_t>(n.raw()));
      return found == kNone ? HugeRange{} : TakeFrom(found, {HugePageId(found), n});
    }
    return TakeAligned(n, align);
  }

  // A part of the range that begins at `begin`.
  HugeRange TakePart(HugePageId begin, HugeRange part) {
    return TakeFrom(static_cast<uint32_t>(begin.raw()), part);
  }

  // A small range, cut to at most n hugepages.
  HugeRange TakeAtMost(HugePages n) {
    const uint32_t found = BestFit(1);
    if (found == kNone) return {};
    const HugePages have(map_[HugePageId(found)].length);
    return TakeFrom(found, {HugePageId(found), have < n ? have : n});
  }

  template <class F>
  void ForEach(F f) const {
    Walk(root_, f);
  }

  // Ranges longer than `least`, which f may raise, the longest among the first; a search that stops
  // after so many steps.
  template <class F>
  void ForLonger(const HugePages& least, F f) const {
    size_t steps = kMostSteps;
    WalkLonger(root_, least, steps, f);
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr size_t kMostSteps = 1024;  // of a search that may fail

  HugePageRecord& At(uint32_t i) const { return map_[HugePageId(i)]; }
  uint32_t LongestOf(uint32_t i) const { return i == kNone ? 0 : At(i).longest; }

  // Heap order of the treap, by the finalizer of Appleby's MurmurHash3. Programs put their ranges
  // at regular distances: for none of those must priorities rise from one range to the next, as a
  // multiplication alone makes them do where the distance is a Fibonacci number.
  uint32_t Priority(uint32_t i) const {
    uint32_t h = i + static_cast<uint32_t>(bias_) * 0x9e3779b1u;  // the window's place is random
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
  }
  bool Above(uint32_t a, uint32_t b) const { return Priority(a) > Priority(b); }  // one-to-one

  void Update(uint32_t i) {
    HugePageRecord& n = At(i);
    uint32_t longest = n.length;
    if (LongestOf(n.left) > longest) longest = LongestOf(n.left);
    if (LongestOf(n.right) > longest) longest = LongestOf(n.right);
    n.longest = longest;
  }

  void AddNode(HugeRange r) {
    const uint32_t i = static_cast<uint32_t>(r.first.raw());
    At(i).length = static_cast<uint32_t>(r.length.raw());
    map_[r.end() - HugePages(1)].first = i;
    Add(i);
  }

  // The path keeps what the stack would in a recursion: a program may have but a few KiB of one.
  void Push(uint32_t i) {
    STRATA_CHECK(path_length_ < kLongestPath);
    path_[path_length_++] = i;
  }

  // From the lowest of the path up: of two nodes of it, the later one is never above the other.
  void UpdatePath() {
    while (path_length_ != 0) Update(path_[--path_length_]);
  }

  void Add(uint32_t i) {
    uint32_t* link = &root_;
    while (*link != kNone && !Above(i, *link)) {
      Push(*link);
      link = i < *link ? &At(*link).left : &At(*link).right;
    }
    const uint32_t below = *link;
    *link = i;
    Push(i);
    Split(below, i, &At(i).left, &At(i).right);
    UpdatePath();
  }

  // Hangs the nodes of `tree` below `key` at `left`, the others at `right`.
  void Split(uint32_t tree, uint32_t key, uint32_t* left, uint32_t* right) {
    while (tree != kNone) {
      Push(tree);
      if (tree < key) {
        *left = tree;
        left = &At(tree).right;
        tree = *left;
      } else {
        *right = tree;
        right = &At(tree).left;
        tree = *right;
      }
    }
    *left = *right = kNone;
  }

  // Hangs both at `link`; every node of `left` lies before those of `right`.
  void Join(uint32_t left, uint32_t right, uint32_t* link) {
    while (left != kNone && right != kNone) {
      if (Above(left, right)) {
        Push(left);
        *link = left;
        link = &At(left).right;
        left = *link;
      } else {
        Push(right);
        *link = right;
        link = &At(right).left;
        right = *link;
      }
    }
    *link = left != kNone ? left : right;
  }

  void Remove(uint32_t i) {
    uint32_t* link = &root_;
    while (*link != i) {
      STRATA_CHECK(*link != kNone);
      Push(*link);
      link = i < *link ? &At(*link).left : &At(*link).right;
    }
    Join(At(i).left, At(i).right, link);
    UpdatePath();
  }

  // Walks down towards the smaller of the subtrees that still hold a fit, and keeps the best seen.
  uint32_t BestFit(uint32_t n) const {
    uint32_t best = kNone;
    for (uint32_t i = root_; i != kNone;) {
      const HugePageRecord& node = At(i);
      if (node.length >= n && (best == kNone || node.length < At(best).length ||
                               (node.length == At(best).length && i < best))) {
        best = i;
      }
      const uint32_t left = LongestOf(node.left), right = LongestOf(node.right);
      if (left >= n && (right < n || left <= right)) {
        i = node.left;
      } else if (right >= n) {
        i = node.right;
      } else {
        break;
      }
    }
    return best;
  }

  HugeRange TakeAligned(HugePages n, HugePages align) {
    // Long enough wherever it begins.
    const uint32_t sure = BestFit(static_cast<uint32_t>((n + align).raw() - 1));
    if (sure != kNone) return TakeFrom(sure, {FirstAligned(sure, align), n});
    // Ranges that are long enough, but may begin at the wrong place: a few are looked at.
    size_t steps = kMostSteps;
    Push(root_);
    while (path_length_ != 0 && steps-- != 0) {
      const uint32_t i = path_[--path_length_];
      if (LongestOf(i) < n.raw()) continue;
      const HugePageRecord& node = At(i);
      const HugePageId start = FirstAligned(i, align);
      if (start.raw() + n.raw() <= i + node.length) {
        path_length_ = 0;
        return TakeFrom(i, {start, n});
      }
      Push(node.right);
      Push(node.left);
    }
    path_length_ = 0;
    return {};
  }

  HugePageId FirstAligned(uint32_t i, HugePages align) const {
    return HugePageId(RoundUp(i + bias_, align.raw()) - bias_);
  }

  // Takes `part` out of the range that begins at i.
  HugeRange TakeFrom(uint32_t i, HugeRange part) {
    const HugeRange whole{HugePageId(i), HugePages(At(i).length)};
    Remove(i);
    total_ -= part.length;
    if (whole.first < part.first) AddNode({whole.first, part.first - whole.first});
    if (part.end() < whole.end()) AddNode({part.end(), whole.end() - part.end()});
    return part;
  }

  template <class F>
  void Walk(uint32_t i, F& f) const {
    if (i == kNone) return;
    Walk(At(i).left, f);
    f(HugeRange{HugePageId(i), HugePages(At(i).length)});
    Walk(At(i).right, f);
  }

  template <class F>
  void WalkLonger(uint32_t i, const HugePages& least, size_t& steps, F& f) const {
    if (LongestOf(i) <= least.raw() || steps == 0) return;
    --steps;
    const HugePageRecord& node = At(i);
    if (node.length > least.raw()) f(HugeRange{HugePageId(i), HugePages(node.length)});
    const bool left_first = LongestOf(node.left) >= LongestOf(node.right);
    WalkLonger(left_first ? node.left : node.right, least, steps, f);
    WalkLonger(left_first ? node.right : node.left, least, steps, f);
  }

  HugePageMap& map_;
  HugePageState state_;
  const size_t bias_;
  uint32_t root_ = kNone;
  HugePages total_;
  // Three times the depth that a treap of all hugepages of a window is likely to have.
  static constexpr size_t kLongestPath = 256;
  uint32_t path_[kLongestPath];
  size_t path_length_ = 0;
};

}  // namespace strata
