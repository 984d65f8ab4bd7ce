// A B+tree under one lock: operations that read share it, one that writes has it alone. Nodes and
// what is done to them are those of occ_btree.h, which says what fine locking brings; here, nobody
// looks at their versions.
//
// Records still leave through the epochs: values are handed out when the lock is free again.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "index/btree_nodes.h"
#include "index/record.h"
#include "index/scan_batch.h"
#include "values/value_view.h"

namespace crest {

template <class Values>
class CoarseBTree {
  using Scope = typename Values::Scope;
  using Nodes = BTreeNodes<Values>;
  using Node = typename Nodes::Node;
  using Leaf = typename Nodes::Leaf;
  using Inner = typename Nodes::Inner;
  using Entry = Record<Values>;

 public:
  static constexpr bool ordered = true;

  explicit CoarseBTree(Values&) : root_(Nodes::template Make<Leaf>()) {}
  ~CoarseBTree() { Nodes::DestroyAll(root_.load()); }
  CoarseBTree(const CoarseBTree&) = delete;

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    const ValueView value = Find(scope, key);
    if (value.data == nullptr) return false;
    f(value);
    return true;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    const std::unique_lock lock(mutex_);
    const auto place = Descend(key).leaf->keys.Find(key);
    if (place.exact) return place.entry->slot.Set(scope, value);
    PreparedRecord<Values> prepared(scope);
    if (!prepared.Make(key, value)) return false;
    Leaf* leaf = MakeRoom(key);
    if (leaf == nullptr) return false;
    leaf->keys.Insert(leaf->keys.Find(key).index, prepared.Take());
    return true;
  }

  bool Remove(Scope& scope, std::string_view key) {
    const std::unique_lock lock(mutex_);
    const Path path = Descend(key);
    const auto place = path.leaf->keys.Find(key);
    if (!place.exact) return false;
    place.entry->slot.Clear(scope);
    path.leaf->keys.Remove(place.index);
    RetireRecord<Values>(scope, place.entry);
    if (path.leaf->keys.size() == 0 && path.parent != nullptr) {
      const auto removed =
          Nodes::RemoveLeaf(root_, path.grandparent, path.parent, path.parent->IndexOf(key));
      Nodes::Destroy(removed.leaf);
      if (removed.parent != nullptr) Nodes::Destroy(removed.parent);
      Nodes::Destroy(removed.separator);
    }
    return true;
  }

  template <class F>
  size_t Scan(Scope& scope, std::string_view from, size_t limit, F&& f) {
    size_t found = 0;
    ScanBatch<Values, Nodes::kCapacity> batch;
    KeyBuffer next;
    for (bool more = true; more && found < limit; from = next.view()) {
      batch.Clear();
      {
        const std::shared_lock lock(mutex_);
        const Path path = Descend(from);
        const auto& keys = path.leaf->keys;
        for (size_t i = keys.Find(from).index; i < keys.size(); ++i) batch.Add(keys.At(i));
        more = path.bound != nullptr;
        if (more) next.Assign(path.bound->key());
      }
      found += batch.Emit(scope, limit - found, f);
    }
    return found;
  }

  template <class F>
  void ForEach(F&& f) {
    Nodes::Walk(root_.load(), [&](Entry* record) { f(record->key(), record->slot); }, [](Node*) {});
  }

  // With no operation running.
  size_t CountNodes() {
    size_t count = 0;
    Nodes::Walk(root_.load(), [](Entry*) {}, [&](Node*) { ++count; });
    return count;
  }

 private:
  struct Path {
    Leaf* leaf;
    Inner* parent;       // null: the leaf is the root
    Inner* grandparent;  // null: the parent is
    const BTreeSeparator* bound;
  };

  Path Descend(std::string_view key) {
    Path path{nullptr, nullptr, nullptr, nullptr};
    Node* node = root_.load(std::memory_order_relaxed);
    while (!node->leaf) {
      path.grandparent = path.parent;
      path.parent = Nodes::AsInner(node);
      const size_t index = path.parent->IndexOf(key);
      if (const auto* bound = path.parent->Bound(index); bound != nullptr) path.bound = bound;
      node = path.parent->Child(index);
    }
    path.leaf = Nodes::AsLeaf(node);
    return path;
  }

  ValueView Find(Scope& scope, std::string_view key) {
    const std::shared_lock lock(mutex_);
    const auto place = Descend(key).leaf->keys.Find(key);
    return place.exact ? place.entry->slot.Get(scope) : ValueView{};
  }

  // The leaf of a key that is not there, with room for it. Null: no memory.
  Leaf* MakeRoom(std::string_view key) {
    for (;;) {
      const Path path = Descend(key);
      if (!path.leaf->keys.full()) return path.leaf;
      const bool at_end =
          path.bound == nullptr && path.leaf->keys.Find(key).index == Nodes::kCapacity;
      if (!SplitTopmost(key, at_end)) return nullptr;
    }
  }

  // Splits the first full node on the way down to the key; no node above it is full then.
  bool SplitTopmost(std::string_view key, bool at_end) {
    Inner* parent = nullptr;
    Node* node = root_.load(std::memory_order_relaxed);
    while (!Nodes::Full(node)) {
      parent = Nodes::AsInner(node);
      node = parent->Child(parent->IndexOf(key));
    }
    return Nodes::Split(root_, parent, node, at_end);
  }

  std::shared_mutex mutex_;
  typename Nodes::Root root_;
};

}  // namespace crest
