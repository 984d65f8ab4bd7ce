// Free ranges of hugepages: a treap by address, each node knowing the longest range below it,
// neighbours merged (papers §2.3). Nodes live in the records of the hugepages themselves, so
// inserting cannot fail.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "hugepage/huge_page_map.h"

namespace strata {

class HugeRangeTree {
 public:
  // Ranges in this tree have this state in the map.
  HugeRangeTree(HugePageMap& map, HugePageState state) : map_(map), state_(state) {}

  HugeLength total() const { return total_; }
  HugeLength longest() const { return HugeLength(LongestOf(root_)); }

  void Insert(HugeRange r) {
    total_ += r.length;
    map_.SetState(r, state_);
    if (r.first.raw() > 0) {
      const HugePageRecord* before = map_.Find(r.first - HugeLength(1));
      if (before != nullptr && before->state == state_) {
        const HugePageId first{before->first};
        r = {first, r.length + HugeLength(map_[first].length)};
        Remove(root_, static_cast<uint32_t>(first.raw()));
      }
    }
    const HugePageRecord* after = map_.Find(r.end());
    if (after != nullptr && after->state == state_) {
      const uint32_t next = static_cast<uint32_t>(r.end().raw());
      r.length += HugeLength(after->length);
      Remove(root_, next);
    }
    AddNode(r);
  }

  // The range that begins at p, which must be in this tree.
  HugeLength LengthAt(HugePageId p) const { return HugeLength(map_[p].length); }

  // n hugepages aligned to `align` from a range that fits, preferring small ranges, then low
  // addresses. Their state is the caller's to set. Empty when nothing fits.
  HugeRange Take(HugeLength n, HugeLength align) {
    if (align == HugeLength(1)) {
      const uint32_t found = BestFit(static_cast<uint32_t>(n.raw()));
      return found == kNone ? HugeRange{} : TakeFrom(found, {HugePageId(found), n});
    }
    return TakeAligned(root_, n, align);
  }

  // The first n hugepages of the range that begins at `first`.
  HugeRange TakeFront(HugePageId first, HugeLength n) {
    return TakeFrom(static_cast<uint32_t>(first.raw()), {first, n});
  }

  // A small range, cut to at most n hugepages.
  HugeRange TakeAtMost(HugeLength n) {
    const uint32_t found = BestFit(1);
    if (found == kNone) return {};
    const HugeLength have(map_[HugePageId(found)].length);
    return TakeFrom(found, {HugePageId(found), have < n ? have : n});
  }

  template <class F>
  void ForEach(F f) const {
    Walk(root_, f);
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  HugePageRecord& At(uint32_t i) const { return map_[HugePageId(i)]; }
  uint32_t LongestOf(uint32_t i) const { return i == kNone ? 0 : At(i).longest; }

  // Heap order of the treap: any fixed scrambling of the index does.
  static uint32_t Priority(uint32_t i) { return (i ^ i >> 15) * 0x9e3779b1u; }
  static bool Above(uint32_t a, uint32_t b) {
    return Priority(a) != Priority(b) ? Priority(a) > Priority(b) : a > b;
  }

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
    map_[r.end() - HugeLength(1)].first = i;
    Add(root_, i);
  }

  void Add(uint32_t& link, uint32_t i) {
    if (link == kNone || Above(i, link)) {
      uint32_t left, right;
      Split(link, i, left, right);
      At(i).left = left;
      At(i).right = right;
      link = i;
    } else {
      Add(i < link ? At(link).left : At(link).right, i);
    }
    Update(link);
  }

  void Split(uint32_t tree, uint32_t key, uint32_t& left, uint32_t& right) {
    if (tree == kNone) {
      left = right = kNone;
    } else if (tree < key) {
      left = tree;
      Split(At(tree).right, key, At(tree).right, right);
      Update(tree);
    } else {
      right = tree;
      Split(At(tree).left, key, left, At(tree).left);
      Update(tree);
    }
  }

  uint32_t Join(uint32_t left, uint32_t right) {
    if (left == kNone) return right;
    if (right == kNone) return left;
    if (Above(left, right)) {
      At(left).right = Join(At(left).right, right);
      Update(left);
      return left;
    }
    At(right).left = Join(left, At(right).left);
    Update(right);
    return right;
  }

  void Remove(uint32_t& link, uint32_t i) {
    STRATA_CHECK(link != kNone);
    if (link == i) {
      link = Join(At(i).left, At(i).right);
      return;
    }
    Remove(i < link ? At(link).left : At(link).right, i);
    Update(link);
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

  HugeRange TakeAligned(uint32_t i, HugeLength n, HugeLength align) {
    if (LongestOf(i) < n.raw()) return {};
    const HugePageRecord& node = At(i);
    const size_t start = RoundUp(i, align.raw());
    if (start + n.raw() <= i + node.length) return TakeFrom(i, {HugePageId(start), n});
    const HugeRange found = TakeAligned(node.left, n, align);
    return found.empty() ? TakeAligned(node.right, n, align) : found;
  }

  // Takes `part` out of the range that begins at i.
  HugeRange TakeFrom(uint32_t i, HugeRange part) {
    const HugeRange whole{HugePageId(i), HugeLength(At(i).length)};
    Remove(root_, i);
    total_ -= part.length;
    if (whole.first < part.first) AddNode({whole.first, part.first - whole.first});
    if (part.end() < whole.end()) AddNode({part.end(), whole.end() - part.end()});
    return part;
  }

  template <class F>
  void Walk(uint32_t i, F& f) const {
    if (i == kNone) return;
    Walk(At(i).left, f);
    f(HugeRange{HugePageId(i), HugeLength(At(i).length)});
    Walk(At(i).right, f);
  }

  HugePageMap& map_;
  HugePageState state_;
  uint32_t root_ = kNone;
  HugeLength total_;
};

}  // namespace strata
