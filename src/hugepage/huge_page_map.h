// What the page heap knows of each hugepage of the window: its state, its owner, and, where it
// begins or ends a free range, the links of the tree of free ranges. Two levels, so only mapped
// parts cost memory. Records exist before a hugepage is first used, so giving back never has to
// have memory: what was taken apart in a large run gets a tracker then, or does without.
#pragma once

#include <cstdint>
#include <new>

#include "base/metadata_arena.h"
#include "base/units.h"

namespace strata {

class HugeTracker;
class HugeRegion;

enum class HugePageState : uint8_t {
  kUnmapped,
  kFree,      // mapped, not backed; in the HugeAllocator
  kCached,    // backed and free; in the HugeCache
  kLarge,     // wholly inside one large run
  kFiller,    // has a HugeTracker
  kRegion,    // part of a HugeRegion
  kLent,      // in a filler of one CPU, which its tracker belongs to
  kInFlight,  // on its way from the cache to the allocator, with the lock dropped
};

struct HugePageRecord {
  union {
    HugeTracker* tracker;  // state kFiller or kLent
    HugeRegion* region;    // state kRegion
  };
  // Of the first hugepage of a range in a HugeRangeTree:
  uint32_t left, right;
  uint32_t length;
  uint32_t longest;         // in its subtree
  uint32_t first;           // of the last hugepage of such a range: where the range begins
  uint32_t in_use_since_s;  // monotonic; when it last came into the filler, a region or a large run
  uint32_t look_after_s;    // in a large run: sparse_blocks.h
  HugePageState state;
  bool unadvised;  // when it was mapped: the start of a small heap
  bool no_huge;    // asked not to be one: it was broken, or taken apart in a large run
  bool moved;      // what lay in it came by page tables: its mapping stays apart
};

class HugePageMap {
 public:
  HugePageMap(MetadataArena& arena, HugePages window) : arena_(arena), window_(window) {}

  HugePages window() const { return window_; }

  // Makes records for a range; false when metadata is out of memory.
  bool Cover(HugeRange r) {
    if (root_ == nullptr) {
      const size_t leaves = (window_.raw() + kLeaf - 1) / kLeaf;
      root_ = static_cast<HugePageRecord**>(arena_.Allocate(leaves * sizeof(HugePageRecord*), 64));
      if (root_ == nullptr) return false;
    }
    for (size_t i = r.first.raw() / kLeaf; i <= (r.end().raw() - 1) / kLeaf; ++i) {
      if (root_[i] != nullptr) continue;
      root_[i] = static_cast<HugePageRecord*>(arena_.Allocate(kLeaf * sizeof(HugePageRecord), 64));
      if (root_[i] == nullptr) return false;
    }
    return true;
  }

  // Only for covered hugepages.
  HugePageRecord& operator[](HugePageId p) const { return root_[p.raw() / kLeaf][p.raw() % kLeaf]; }

  // Null for a hugepage that was never covered.
  HugePageRecord* Find(HugePageId p) const {
    if (root_ == nullptr || p.raw() >= window_.raw()) return nullptr;
    HugePageRecord* leaf = root_[p.raw() / kLeaf];
    return leaf == nullptr ? nullptr : &leaf[p.raw() % kLeaf];
  }

  void SetState(HugeRange r, HugePageState state) {
    for (HugePageId p = r.first; p < r.end(); p += HugePages(1)) (*this)[p].state = state;
  }

 private:
  static constexpr size_t kLeaf = 512;  // 1 GiB

  MetadataArena& arena_;
  HugePages window_;
  HugePageRecord** root_ = nullptr;
};

}  // namespace strata
