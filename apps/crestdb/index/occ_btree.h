// A B+tree with optimistic concurrency control and reclamation by epochs. Readers go down without
// writing to any node: they take the version of a node, read it, and see that the version of the
// node above did not move before they trust what led them here (optimistic lock coupling: Leis,
// Haubenschild, Neumann, IEEE Data Eng. Bull. 42(1), 2019; versions after Mao, Kohler, Morris,
// EuroSys 2012). Writers do the same, lock the one or two nodes that they change if these are still
// what they read, and start again if not. Nodes and records that left the tree are freed when no
// operation that may have met them is open any more.
//
// Full nodes are split on the way down, so that a split never has to go further up than one node.
// Locks are taken from the root downwards, and waited for only in that order.
#pragma once

#include <memory>
#include <string_view>

#include "index/btree_nodes.h"
#include "index/record.h"
#include "index/scan_batch.h"
#include "index/version_word.h"

namespace crest {

template <class Values>
class OccBTree {
  using Scope = typename Values::Scope;
  using Nodes = BTreeNodes<Values>;
  using Node = typename Nodes::Node;
  using Leaf = typename Nodes::Leaf;
  using Inner = typename Nodes::Inner;
  using Entry = Record<Values>;
  using Version = VersionWord::Version;

 public:
  static constexpr bool ordered = true;

  explicit OccBTree(Values&) : root_(Nodes::template Make<Leaf>()) {}
  ~OccBTree() { Nodes::DestroyAll(root_.load()); }
  OccBTree(const OccBTree&) = delete;

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    for (Backoff backoff;; backoff.Wait()) {
      Path path;
      if (!Descend(key, path)) continue;
      const auto place = path.leaf()->keys.Find(key);
      if (!path.node->version.Unchanged(path.version)) continue;
      if (!place.exact) return false;
      // The leaf may change from here on. The record is ours to look at till the scope ends; if the
      // key leaves the tree before we read its value, there is none, and it left meanwhile.
      const auto value = place.entry->slot.Get(scope);
      if (value.data == nullptr) return false;
      f(value);
      return true;
    }
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    PreparedRecord<Values> prepared(scope);
    for (Backoff backoff;; backoff.Wait()) {
      Path path;
      if (!Descend(key, path)) continue;
      if (Nodes::Full(path.node) && !path.leaf()->keys.Find(key).exact) {
        if (!SplitOnTheWay(key)) return false;
        continue;
      }
      const auto place = path.leaf()->keys.Find(key);
      if (!path.node->version.Unchanged(path.version)) continue;
      // A value is copied before the lock is taken if the key is new.
      if (!place.exact && !prepared.Make(key, value)) return false;
      if (!path.node->version.LockIf(path.version)) continue;
      bool done = true;
      if (place.exact) {
        done = place.entry->slot.Set(scope, value);
      } else {
        path.node->version.MarkInserting();
        path.leaf()->keys.Insert(place.index, prepared.Take());
      }
      path.node->version.Unlock();
      return done;
    }
  }

  bool Remove(Scope& scope, std::string_view key) {
    for (Backoff backoff;; backoff.Wait()) {
      Path path;
      if (!Descend(key, path)) continue;
      const auto place = path.leaf()->keys.Find(key);
      if (!path.node->version.Unchanged(path.version)) continue;
      if (!place.exact) return false;
      if (!path.node->version.LockIf(path.version)) continue;
      path.node->version.MarkInserting();
      place.entry->slot.Clear(scope);
      path.leaf()->keys.Remove(place.index);
      const bool empty = path.leaf()->keys.size() == 0;
      path.node->version.Unlock();
      RetireRecord<Values>(scope, place.entry);
      if (empty) RemoveEmptyLeaf(scope, key);
      return true;
    }
  }

  template <class F>
  size_t Scan(Scope& scope, std::string_view from, size_t limit, F&& f) {
    size_t found = 0;
    ScanBatch<Values, Nodes::kCapacity> batch;
    for (Backoff backoff; found < limit;) {
      Path path;
      batch.Clear();
      if (!Descend(from, path) || !Collect(path, from, batch)) {
        backoff.Wait();
        continue;
      }
      found += batch.Emit(scope, limit - found, f);
      if (path.bound == nullptr) break;
      from = path.bound->key();  // the scope keeps separators as well
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
  // Where a way down has come: the node and what hangs on to it, with the versions that they had.
  struct Path {
    Node* node;
    Version version;
    Inner* parent;  // null: the node is the root
    Version parent_version;
    const BTreeSeparator* bound;  // keys of the node lie before it; null: no bound

    Leaf* leaf() const { return Nodes::AsLeaf(node); }
  };

  VersionWord& VersionAbove(const Path& path) {
    return path.parent != nullptr ? path.parent->version : root_version_;
  }

  // To the root. False: begin again.
  bool Enter(Path& path) {
    path.parent = nullptr;
    path.bound = nullptr;
    path.parent_version = root_version_.Stable();
    path.node = root_.load(std::memory_order_acquire);
    path.version = path.node->version.Stable();
    return root_version_.Unchanged(path.parent_version);
  }

  // One node down from an inner one.
  bool Step(Path& path, std::string_view key) {
    Inner* inner = Nodes::AsInner(path.node);
    const size_t index = inner->IndexOf(key);
    Node* child = inner->Child(index);
    const BTreeSeparator* bound = inner->Bound(index);
    // What was read may be torn, and a child that never was: look before going there.
    if (!inner->version.Unchanged(path.version)) return false;
    const Version version = child->version.Stable();
    if (!inner->version.Unchanged(path.version)) return false;
    if (bound == nullptr) bound = path.bound;
    path = {child, version, inner, path.version, bound};
    return true;
  }

  bool Descend(std::string_view key, Path& path) {
    if (!Enter(path)) return false;
    while (!path.node->leaf) {
      if (!Step(path, key)) return false;
    }
    return true;
  }

  // The way of Descend, splitting full nodes. After it there is room in the leaf, or something
  // else has changed. False: no memory.
  bool SplitOnTheWay(std::string_view key) {
    for (Backoff backoff;; backoff.Wait()) {
      Path path;
      if (!Enter(path)) continue;
      while (!path.node->leaf && !Nodes::Full(path.node)) {
        if (!Step(path, key)) break;
      }
      if (!path.node->leaf && !Nodes::Full(path.node)) continue;
      if (!Nodes::Full(path.node)) return true;
      const bool leaf = path.node->leaf;
      switch (SplitLast(path, key)) {
        case Outcome::kNoMemory:
          return false;
        case Outcome::kMoved:
          continue;
        case Outcome::kDone:
          if (leaf) return true;
      }
    }
  }

  enum class Outcome { kDone, kMoved, kNoMemory };

  Outcome SplitLast(Path& path, std::string_view key) {
    VersionWord& above = VersionAbove(path);
    if (!above.LockIf(path.parent_version)) return Outcome::kMoved;
    if (!path.node->version.LockIf(path.version)) {
      above.Unlock();
      return Outcome::kMoved;
    }
    Outcome outcome = Outcome::kMoved;
    if (Nodes::Full(path.node)) {
      const bool at_end = path.node->leaf && path.bound == nullptr &&
                          path.leaf()->keys.Find(key).index == Nodes::kCapacity;
      above.MarkInserting();
      path.node->version.MarkSplitting();
      outcome =
          Nodes::Split(root_, path.parent, path.node, at_end) ? Outcome::kDone : Outcome::kNoMemory;
    }
    path.node->version.Unlock();
    above.Unlock();
    return outcome;
  }

  bool Collect(const Path& path, std::string_view from,
               ScanBatch<Values, Nodes::kCapacity>& batch) {
    const auto& keys = path.leaf()->keys;
    const size_t size = keys.size();
    for (size_t i = keys.Find(from).index; i < size; ++i) batch.Add(keys.At(i));
    return path.node->version.Unchanged(path.version);
  }

  // Takes the leaf that the key belongs to out of the tree if it is empty, holding the locks of it
  // and of the two nodes above.
  void RemoveEmptyLeaf(Scope& scope, std::string_view key) {
    VersionWord* top = &root_version_;  // of `grandparent`, or the root's
    Inner* grandparent = nullptr;
    Inner* parent = nullptr;
    top->Lock();
    Node* node = root_.load(std::memory_order_relaxed);
    node->version.Lock();
    size_t index = 0;
    while (!node->leaf) {
      if (parent != nullptr) {
        top->Unlock();
        top = &parent->version;
        grandparent = parent;
      }
      parent = Nodes::AsInner(node);
      index = parent->IndexOf(key);
      node = parent->Child(index);
      node->version.Lock();
    }
    const bool remove = parent != nullptr && Nodes::AsLeaf(node)->keys.size() == 0;
    typename Nodes::Removed removed;
    if (remove) {
      if (parent->keys.size() == 1) top->MarkInserting();
      parent->version.MarkInserting();
      removed = Nodes::RemoveLeaf(root_, grandparent, parent, index);
      node->version.MarkDeleted();
      if (removed.parent != nullptr) parent->version.MarkDeleted();
    }
    node->version.Unlock();
    if (parent != nullptr) parent->version.Unlock();
    top->Unlock();
    Retire(scope, removed);
  }

  void Retire(Scope& scope, const typename Nodes::Removed& removed) {
    for (Node* node : {removed.leaf, removed.parent}) {
      if (node != nullptr) scope.Retire(node, &std::free);
    }
    if (removed.separator != nullptr) scope.Retire(removed.separator, &std::free);
  }

  VersionWord root_version_;  // of root_
  typename Nodes::Root root_;
};

}  // namespace crest
