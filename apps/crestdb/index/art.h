// The adaptive radix tree (Leis, Kemper, Neumann, ICDE 2013) with a lock to read or to write in
// each node, taken hand over hand from the root: whoever goes down holds a node until it has the
// next one, and one that writes holds the node above as well, since a node that grows, shrinks or
// splits its prefix is replaced there (lock coupling: Leis et al., DaMoN 2016, section 3.1).
//
// Writers go down sharing too, and have the one or two nodes that they change to themselves only at
// the end. If others are in these they begin again and go down excluding others, node by node.
// Nobody can be on the way to a node whose parent and whose own lock somebody has alone, so nodes
// are freed at once; records go by epochs, since values are read when the locks are free again.
//
// The root is a node for 256 children without a prefix, and is never replaced.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "index/art_nodes.h"
#include "index/key_words.h"
#include "index/record.h"
#include "index/scan_batch.h"

namespace crest {

template <class Values>
class Art {
  using Scope = typename Values::Scope;
  using Nodes = ArtNodes<Values>;
  using Node = typename Nodes::Node;
  using Link = typename Nodes::Link;
  using Child = typename Nodes::Child;
  using Entry = Record<Values>;

 public:
  static constexpr bool ordered = true;

  explicit Art(Values&) {}
  ~Art() {
    Nodes::Walk(
        &root_, [](Entry* record) { Entry::Destroy(record); },
        [this](Node* node) {
          if (node != &root_) Nodes::Destroy(node);
        });
  }
  Art(const Art&) = delete;

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    const Entry* record = Find(key);
    if (record == nullptr) return false;
    // If the key leaves the tree before its value is read, there is none, and it left meanwhile.
    const auto value = record->slot.Get(scope);
    if (value.data == nullptr) return false;
    f(value);
    return true;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    PreparedRecord<Values> prepared(scope);
    return Write([&](Way& way) { return TryPut(scope, way, key, value, prepared); },
                 [&] { return prepared.Make(key, value); });
  }

  bool Remove(Scope& scope, std::string_view key) {
    return Write([&](Way& way) { return TryRemove(scope, way, key); }, [] { return false; });
  }

  template <class F>
  size_t Scan(Scope& scope, std::string_view from, size_t limit, F&& f) {
    size_t found = 0;
    Batch batch;
    KeyBuffer cursor;
    cursor.Assign(from);
    while (found < limit) {
      batch.Clear();
      root_.lock.LockShared();
      Collect(&root_, 0, cursor.view(), Side::kAlong, batch);
      root_.lock.UnlockShared();
      found += batch.Emit(scope, limit - found, f);
      if (!batch.full()) break;
      cursor.Assign(batch.last()->key());
      cursor.Append('\0');  // the next key there can be
    }
    return found;
  }

  template <class F>
  void ForEach(F&& f) {
    Nodes::Walk(&root_, [&](Entry* record) { f(record->key(), record->slot); }, [](Node*) {});
  }

  // Of each kind, with no operation running; the root is one.
  std::array<size_t, 4> CountNodes() {
    std::array<size_t, 4> counts{};
    Nodes::Walk(
        &root_, [](Entry*) {}, [&](Node* node) { ++counts[static_cast<size_t>(node->kind)]; });
    return counts;
  }

 private:
  using Batch = ScanBatch<Values, 32>;
  enum class Mode { kShared, kExclusive };
  enum class Outcome {
    kDone,
    kAbsent,   // there was nothing to remove
    kPrepare,  // the key is new: make its record, then again
    kExclude,  // others are in the nodes to be changed: again, excluding them
    kNoMemory,
  };

  // A node that is held.
  class Held {
   public:
    Held() = default;
    Held(Node* node, Mode mode) : node_(node), mode_(mode) {
      if (mode == Mode::kShared) {
        node->lock.LockShared();
      } else {
        node->lock.Lock();
      }
    }
    ~Held() { Release(); }
    Held(Held&& other) noexcept : node_(std::exchange(other.node_, nullptr)), mode_(other.mode_) {}
    Held& operator=(Held&& other) noexcept {
      if (this != &other) {
        Release();
        node_ = std::exchange(other.node_, nullptr);
        mode_ = other.mode_;
      }
      return *this;
    }
    Node* operator->() const { return node_; }
    Node* get() const { return node_; }
    explicit operator bool() const { return node_ != nullptr; }

    // To have it alone. False: others read it.
    [[nodiscard]] bool Own() {
      if (mode_ == Mode::kShared && !node_->lock.TryUpgrade()) return false;
      mode_ = Mode::kExclusive;
      return true;
    }
    // The node is out of the tree and nobody else knows it.
    void Destroy() { Nodes::Destroy(std::exchange(node_, nullptr)); }

   private:
    void Release() {
      if (node_ == nullptr) return;
      if (mode_ == Mode::kShared) {
        node_->lock.UnlockShared();
      } else {
        node_->lock.Unlock();
      }
      node_ = nullptr;
    }
    Node* node_ = nullptr;
    Mode mode_ = Mode::kShared;
  };

  // The way down of a writer: a node, the one above it, and the link to it there.
  struct Way {
    Way(Node* root, Mode m) : mode(m), node(root, m) {}
    void StepTo(Link* next) {
      Held below(next->node(), mode);
      parent = std::move(node);
      node = std::move(below);
      link = next;
    }
    // The node alone, or it and its parent. From the top, as locks are taken.
    bool Own() { return node.Own(); }
    bool OwnBoth() { return (!parent || parent.Own()) && node.Own(); }

    Mode mode;
    Held parent;  // none: the node is the root
    Held node;
    Link* link = nullptr;  // in the parent
  };

  template <class Try, class Prepare>
  bool Write(Try&& attempt, Prepare&& prepare) {
    for (Mode mode = Mode::kShared;;) {
      Outcome outcome;
      {
        Way way(&root_, mode);
        outcome = attempt(way);
      }
      if (outcome == Outcome::kExclude) {
        mode = Mode::kExclusive;
      } else if (outcome != Outcome::kPrepare || !prepare()) {
        return outcome == Outcome::kDone;
      }
    }
  }

  static uint8_t ByteAt(std::string_view key, size_t at) { return static_cast<uint8_t>(key[at]); }

  Entry* Find(std::string_view key) {
    Held node(&root_, Mode::kShared);
    for (size_t depth = 0;;) {
      const std::string_view prefix = node->prefix.view();
      if (!key.substr(depth).starts_with(prefix)) return nullptr;
      depth += prefix.size();
      if (depth == key.size()) return node->ends;
      const Link* link = Nodes::Find(node.get(), ByteAt(key, depth));
      if (link == nullptr) return nullptr;
      Node* below = link->node();
      if (below == nullptr) {
        Entry* record = link->record();
        return record->key() == key ? record : nullptr;
      }
      node = Held(below, Mode::kShared);  // takes the one before it lets go of the other
      ++depth;
    }
  }

  // Where a subtree lies to the key that a scan begins with.
  enum class Side { kAlong, kBehind };
  void Collect(Node* node, size_t depth, std::string_view from, Side side, Batch& batch);

  Outcome TryPut(Scope& scope, Way& way, std::string_view key, std::string_view value,
                 PreparedRecord<Values>& prepared);
  Outcome Overwrite(Scope& scope, Entry* record, std::string_view value);
  Outcome SplitPrefix(Way& way, std::string_view key, size_t depth, size_t common,
                      PreparedRecord<Values>& prepared);
  Outcome SplitRecord(Way& way, Link* link, std::string_view key, size_t depth,
                      PreparedRecord<Values>& prepared);
  Outcome InsertChild(Way& way, uint8_t byte, PreparedRecord<Values>& prepared);
  Outcome TryRemove(Scope& scope, Way& way, std::string_view key);
  Outcome RemoveFrom(Scope& scope, Way& way, std::string_view key, size_t depth, Entry* record);
  void ReplaceByLast(Way& way);
  static void Hang(Node* node, std::string_view key, size_t depth, Entry* record);

  typename Nodes::Node256 root_;
};

}  // namespace crest

#include "index/art_scan_inl.h"
#include "index/art_write_inl.h"
