// TreeFit: where a coalescing heap keeps its free blocks, and how it picks the smallest that fits.
// Below 1 KiB there is a list for each size; above, a tree for each power of two, in which the bits
// of a block's size below its first are the way to its place, and blocks of one size are a ring of
// which one lies in the tree (digital search trees, as Lea's malloc has them since 2.8). Best fit
// takes at most as many steps as a size has bits, however many blocks are free.
#pragma once

#include <bit>

#include "strata/layers/detail/boundary_tag.h"

namespace strata::layers {

namespace internal {

// The free blocks of a power of two and more, below the next.
class SizeTree {
 public:
  void Clear() { root_ = nullptr; }
  bool empty() const { return root_ == nullptr; }

  void Add(TaggedBlock* block) {
    auto* b = static_cast<Node*>(block);
    b->child[0] = b->child[1] = nullptr;
    b->next = b->previous = b;
    Node** at = &root_;
    for (size_t way = Way(b->size()); *at != nullptr; way <<= 1) {
      if ((*at)->size() == b->size()) return Join(*at, b);
      at = &(*at)->child[way >> 63];
    }
    *at = b;
    b->at = at;
  }

  void Remove(TaggedBlock* block) {
    auto* b = static_cast<Node*>(block);
    b->next->previous = b->previous;
    b->previous->next = b->next;
    if (b->at == nullptr) return;  // in a ring beside the one in the tree
    // Another of its size takes its place, or any below it that has none below: all of them share
    // the way to here.
    auto* heir = static_cast<Node*>(b->next);
    if (heir == b) heir = TakeLeaf(b);
    *b->at = heir;
    if (heir == nullptr) return;
    heir->at = b->at;
    for (size_t side = 0; side < 2; ++side) {
      heir->child[side] = b->child[side];
      if (heir->child[side] != nullptr) heir->child[side]->at = &heir->child[side];
    }
  }

  // The smallest of at least `bytes`, which is of this power of two; null when there is none. One
  // beside the tree, if there is: that comes out most cheaply.
  TaggedBlock* AtLeast(size_t bytes) const {
    Node* best = nullptr;
    Node* above = nullptr;  // the last subtree passed by whose sizes are all above `bytes`
    size_t way = Way(bytes);
    for (Node* n = root_; n != nullptr; way <<= 1) {
      if (n->size() >= bytes && (best == nullptr || n->size() < best->size())) best = n;
      const size_t side = way >> 63;
      if (side == 0 && n->child[1] != nullptr) above = n->child[1];
      n = n->child[side];
    }
    return LeastOf(above, best);
  }
  TaggedBlock* Least() const { return LeastOf(root_, nullptr); }

 private:
  struct Node : TaggedBlock {
    Node* child[2];  // by the next bit of the way
    Node** at;       // what points to it; null outside of the tree
  };

  // The bits of the size below its first, from the top of the word.
  static size_t Way(size_t size) { return size << 1 << std::countl_zero(size); }

  static void Join(Node* there, Node* b) {
    b->at = nullptr;
    b->next = there->next;
    b->previous = there;
    there->next->previous = b;
    there->next = b;
  }
  // Cuts off a node below b that has no children; null when b has none.
  static Node* TakeLeaf(Node* b) {
    Node** at = Deeper(b);
    if (*at == nullptr) return nullptr;
    while (*Deeper(*at) != nullptr) at = Deeper(*at);
    Node* leaf = *at;
    *at = nullptr;
    return leaf;
  }
  static Node** Deeper(Node* n) { return &n->child[n->child[1] != nullptr ? 1 : 0]; }

  // The smaller of `best`, which may be null, and the smallest of a tree.
  static TaggedBlock* LeastOf(Node* n, Node* best) {
    for (; n != nullptr; n = n->child[n->child[0] != nullptr ? 0 : 1]) {
      if (best == nullptr || n->size() < best->size()) best = n;
    }
    return best == nullptr ? nullptr : best->next;
  }

  Node* root_ = nullptr;
};

}  // namespace internal

// For blocks below 2 to the power of kEnd bytes; no address has more than 48 bits.
template <size_t kEnd = 48>
class BasicTreeFit {
 public:
  void Add(TaggedBlock* b) {
    if (b->size() < kLimit) return Link(b);
    if (newest_ != nullptr) Plant(newest_);
    newest_ = b;
  }

  void Remove(TaggedBlock* b) {
    if (b == newest_) {
      newest_ = nullptr;
    } else if (b->size() < kLimit) {
      Unlink(b);
    } else {
      Uproot(b);
    }
  }

  // The smallest block of at least `bytes`, no longer kept; null when there is none.
  TaggedBlock* Take(size_t bytes) {
    TaggedBlock* b = Find(bytes);
    if (b != nullptr) Remove(b);
    return b;
  }

  bool empty() const { return (exact_ | octaves_) == 0 && newest_ == nullptr; }
  void Clear() {
    exact_ = octaves_ = 0;
    newest_ = nullptr;
    floor_ = SIZE_MAX;
  }

 private:
  static constexpr size_t kLists = 64, kLimit = kLists * TaggedBlock::kUnit;
  static constexpr size_t kFirstOctave = Log2(kLimit);
  static_assert(kFirstOctave < kEnd && kEnd <= 48, "TreeFit: an end from 2^11 to 2^48");
  static constexpr uint64_t Bit(size_t n) { return uint64_t{1} << n; }

  TaggedBlock* Find(size_t bytes) {
    if (bytes < kLimit) {
      const uint64_t usable = exact_ & (~uint64_t{0} << (bytes / TaggedBlock::kUnit));
      if (usable != 0) return lists_[std::countr_zero(usable)];
    }
    const size_t newest = newest_ == nullptr ? 0 : newest_->size();
    if (newest >= bytes && newest <= floor_) return newest_;
    TaggedBlock* b = FindPlanted(bytes);
    return newest >= bytes && (b == nullptr || newest <= b->size()) ? newest_ : b;
  }
  TaggedBlock* FindPlanted(size_t bytes) {
    size_t octave = kFirstOctave;
    if (bytes >= kLimit) {
      octave = Log2(bytes);
      if (octave >= kEnd) return nullptr;
      if ((octaves_ & Bit(octave)) != 0) {
        if (TaggedBlock* b = trees_[octave - kFirstOctave].AtLeast(bytes)) return b;
      }
      ++octave;
    }
    const uint64_t usable = octaves_ & (~uint64_t{0} << octave);
    if (usable == 0) return nullptr;
    TaggedBlock* b = trees_[static_cast<size_t>(std::countr_zero(usable)) - kFirstOctave].Least();
    if (usable == octaves_) floor_ = b->size();
    return b;
  }

  void Link(TaggedBlock* b) {
    const size_t list = b->size() / TaggedBlock::kUnit;
    b->previous = nullptr;
    b->next = (exact_ & Bit(list)) == 0 ? nullptr : lists_[list];
    if (b->next != nullptr) b->next->previous = b;
    lists_[list] = b;
    exact_ |= Bit(list);
  }
  void Unlink(TaggedBlock* b) {
    if (b->next != nullptr) b->next->previous = b->previous;
    if (b->previous != nullptr) {
      b->previous->next = b->next;
      return;
    }
    const size_t list = b->size() / TaggedBlock::kUnit;
    lists_[list] = b->next;
    if (b->next == nullptr) exact_ &= ~Bit(list);
  }

  void Plant(TaggedBlock* b) {
    const size_t octave = Log2(b->size());
    internal::SizeTree& tree = trees_[octave - kFirstOctave];
    if ((octaves_ & Bit(octave)) == 0) tree.Clear();
    octaves_ |= Bit(octave);
    if (b->size() < floor_) floor_ = b->size();
    tree.Add(b);
  }
  void Uproot(TaggedBlock* b) {
    const size_t octave = Log2(b->size());
    internal::SizeTree& tree = trees_[octave - kFirstOctave];
    tree.Remove(b);
    if (tree.empty()) octaves_ &= ~Bit(octave);
    if (octaves_ == 0) floor_ = SIZE_MAX;
  }

  // The large block added last is in no tree yet: it is what the next request is cut from, or what
  // the next free joins, more often than others (Lea's designated victim).
  TaggedBlock* newest_ = nullptr;
  size_t floor_ = SIZE_MAX;           // none in the trees is smaller
  uint64_t exact_ = 0, octaves_ = 0;  // a bit for each list, and for each tree, that is not empty
  TaggedBlock* lists_[kLists] = {};   // only those with their bit set mean anything
  internal::SizeTree trees_[kEnd - kFirstOctave];
};

using TreeFit = BasicTreeFit<>;

}  // namespace strata::layers
