// The nodes of both B+trees (coarse_btree.h, occ_btree.h) and what is done to them: split, and
// taken out when a leaf is empty. Whoever calls these holds the locks of the nodes that they
// change, and has marked their versions if readers may be about.
//
// Leaves that run empty leave the tree at once, and an inner node that is left with one child gives
// way to it, so an inner node always has a separator and leaves may lie at different depths. Half
// empty nodes are not merged: they fill up again or run empty. Leaves know no neighbours; a scan
// goes down once a leaf, to the bound at which the last one ended.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "index/btree_keys.h"
#include "index/record.h"
#include "index/version_word.h"

namespace crest {

// The least key of what hangs to the right of it, cut off where it differs from what hangs to the
// left.
class BTreeSeparator {
 public:
  // Null: no memory.
  static BTreeSeparator* Between(std::string_view left, std::string_view right) {
    const std::string_view cut = right.substr(0, CommonPrefix(left, right) + 1);
    void* memory = std::malloc(sizeof(BTreeSeparator) + cut.size());
    return memory == nullptr ? nullptr : new (memory) BTreeSeparator(cut);
  }
  std::string_view key() const { return {reinterpret_cast<const char*>(this + 1), size_}; }

 private:
  explicit BTreeSeparator(std::string_view key) : size_(static_cast<uint8_t>(key.size())) {
    std::memcpy(reinterpret_cast<char*>(this + 1), key.data(), key.size());
  }
  const uint8_t size_;
};

template <class Values>
struct BTreeNodes {
  static constexpr size_t kCapacity = 28;
  using Keys = BTreeKeys<Record<Values>, kCapacity>;

  struct Node {
    VersionWord version;
    const bool leaf;
  };
  struct Leaf : Node {
    Leaf() : Node{{}, true} {}
    Keys keys;
  };
  struct Inner : Node {
    Inner() : Node{{}, false} {}
    size_t IndexOf(std::string_view key) const {
      const auto place = keys.Find(key);
      return place.index + (place.exact ? 1 : 0);
    }
    Node* Child(size_t index) const { return children[index].load(std::memory_order_acquire); }
    // Where keys of the child end; null if nothing is to the right of it.
    const BTreeSeparator* Bound(size_t index) const {
      return index < keys.size() ? keys.At(index) : nullptr;
    }
    BTreeKeys<BTreeSeparator, kCapacity> keys;
    std::array<std::atomic<Node*>, kCapacity + 1> children{};
  };
  using Root = std::atomic<Node*>;

  static Leaf* AsLeaf(Node* node) { return static_cast<Leaf*>(node); }
  static Inner* AsInner(Node* node) { return static_cast<Inner*>(node); }
  static bool Full(const Node* node) {
    return node->leaf ? static_cast<const Leaf*>(node)->keys.full()
                      : static_cast<const Inner*>(node)->keys.full();
  }

  template <class T>
  static T* Make() {
    void* memory = std::malloc(sizeof(T));
    return memory == nullptr ? nullptr : new (memory) T;
  }
  static void Destroy(Node* node) { std::free(node); }  // nothing in one has a destructor to run
  static void Destroy(BTreeSeparator* separator) { std::free(separator); }

  // Splits a full node. Its parent is not full; null if it is the root, which then gets one. Keys
  // that come in order leave full leaves behind: with `at_end`, only the last key moves. False: no
  // memory, and nothing has changed.
  static bool Split(Root& root, Inner* parent, Node* node, bool at_end) {
    Inner* top = parent != nullptr ? parent : Make<Inner>();
    if (top == nullptr) return false;
    const Halves halves = node->leaf ? SplitLeaf(AsLeaf(node), at_end) : SplitInner(AsInner(node));
    if (halves.right == nullptr) {
      if (parent == nullptr) Destroy(top);
      return false;
    }
    if (parent == nullptr) {
      top->children[0].store(node, std::memory_order_relaxed);
      top->children[1].store(halves.right, std::memory_order_relaxed);
      top->keys.Insert(0, halves.bound);
      root.store(top, std::memory_order_release);
    } else {
      InsertChild(top, halves.bound, halves.right);
    }
    return true;
  }

  // What has left the tree: to be destroyed once no reader can be there any more. Nulls: nothing.
  struct Removed {
    Node* leaf = nullptr;
    Node* parent = nullptr;
    BTreeSeparator* separator = nullptr;
  };

  // Takes child `index` of `parent`, an empty leaf, out. If that leaves the parent with one child,
  // this takes its place under `grandparent`, or as the root if that is null.
  static Removed RemoveLeaf(Root& root, Inner* grandparent, Inner* parent, size_t index) {
    Removed removed{parent->Child(index), nullptr, parent->keys.At(index == 0 ? 0 : index - 1)};
    if (parent->keys.size() > 1) {
      RemoveChild(parent, index);
      return removed;
    }
    removed.parent = parent;
    Node* other = parent->Child(1 - index);
    if (grandparent == nullptr) {
      root.store(other, std::memory_order_release);
    } else {
      for (auto& child : grandparent->children) {
        if (child.load(std::memory_order_relaxed) != parent) continue;
        child.store(other, std::memory_order_release);
        break;  // what lies behind the last child may be stale
      }
    }
    return removed;
  }

  // With nobody about: `visit` for each record in order, then whatever `leave` does to each node.
  template <class Visit, class Leave>
  static void Walk(Node* node, Visit&& visit, Leave&& leave) {
    if (node->leaf) {
      for (size_t i = 0; i < AsLeaf(node)->keys.size(); ++i) visit(AsLeaf(node)->keys.At(i));
    } else {
      for (size_t i = 0; i <= AsInner(node)->keys.size(); ++i) {
        Walk(AsInner(node)->Child(i), visit, leave);
      }
    }
    leave(node);
  }

  static void DestroyAll(Node* root) {
    Walk(
        root, [](Record<Values>* record) { Record<Values>::Destroy(record); },
        [](Node* node) {
          if (!node->leaf) {
            for (size_t i = 0; i < AsInner(node)->keys.size(); ++i) {
              Destroy(AsInner(node)->keys.At(i));
            }
          }
          Destroy(node);
        });
  }

 private:
  struct Halves {
    BTreeSeparator* bound;
    Node* right;  // null: no memory
  };

  static Halves SplitLeaf(Leaf* leaf, bool at_end) {
    const size_t at = at_end ? kCapacity - 1 : kCapacity / 2;
    Leaf* right = Make<Leaf>();
    BTreeSeparator* bound =
        BTreeSeparator::Between(leaf->keys.At(at - 1)->key(), leaf->keys.At(at)->key());
    if (right == nullptr || bound == nullptr) {
      if (right != nullptr) Destroy(right);
      if (bound != nullptr) Destroy(bound);
      return {nullptr, nullptr};
    }
    leaf->keys.Split(at, at, right->keys);
    return {bound, right};
  }

  static Halves SplitInner(Inner* inner) {
    constexpr size_t kMiddle = kCapacity / 2;
    Inner* right = Make<Inner>();
    if (right == nullptr) return {nullptr, nullptr};
    BTreeSeparator* bound = inner->keys.At(kMiddle);
    for (size_t i = kMiddle + 1; i <= kCapacity; ++i) {
      right->children[i - kMiddle - 1].store(inner->Child(i), std::memory_order_relaxed);
    }
    inner->keys.Split(kMiddle, kMiddle + 1, right->keys);
    return {bound, right};
  }

  static void InsertChild(Inner* inner, BTreeSeparator* bound, Node* right) {
    const size_t index = inner->keys.Find(bound->key()).index;
    for (size_t i = inner->keys.size() + 1; i > index + 1; --i) {
      inner->children[i].store(inner->Child(i - 1), std::memory_order_release);
    }
    inner->children[index + 1].store(right, std::memory_order_release);
    inner->keys.Insert(index, bound);
  }

  // The range of the child goes to its neighbour: the left one, or the right one of the first.
  static void RemoveChild(Inner* inner, size_t index) {
    const size_t last = inner->keys.size();
    for (size_t i = index; i < last; ++i) {
      inner->children[i].store(inner->Child(i + 1), std::memory_order_release);
    }
    inner->keys.Remove(index == 0 ? 0 : index - 1);
  }
};

}  // namespace crest
