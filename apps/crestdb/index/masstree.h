// MassTree: a trie of B+trees, one layer for each eight bytes of the key (Mao, Kohler, Morris,
// "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012). Long common prefixes cost
// one layer each eight bytes and are never compared twice, and nodes compare numbers, not strings.
//
// Readers go down by versions, without locks; so do writers, who then lock the one or two nodes
// that they change. Nodes and records are freed by epochs, which is the paper's read-copy-update.
//
// Where this departs from the paper: nodes have no parents, and borders no neighbours. A writer
// splits full nodes on its way down, so that it knows what hangs above; a reader whose border was
// split meanwhile begins again, where the paper's goes right along the borders; a scan goes down
// once a border. In return a border that runs empty can leave its range to either neighbour and is
// taken out at once, the first one too, and a layer with its last key. Half empty nodes are not
// merged, and a layer that is left with one key stays one.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "index/masstree_nodes.h"
#include "index/record.h"
#include "index/scan_batch.h"
#include "index/version_word.h"

namespace crest {

template <class Values>
class Masstree {
  using Scope = typename Values::Scope;
  using Nodes = MasstreeNodes<Values>;
  using Node = typename Nodes::Node;
  using Border = typename Nodes::Border;
  using Interior = typename Nodes::Interior;
  using Link = typename Nodes::Link;
  using LinkCell = typename Nodes::LinkCell;
  using Part = typename Nodes::Part;
  using Entry = Record<Values>;
  using Version = VersionWord::Version;

 public:
  static constexpr bool ordered = true;

  explicit Masstree(Values&) : root_(Link(static_cast<Node*>(Nodes::template Make<Border>()))) {}
  ~Masstree() {
    Nodes::Walk(
        root_.load().node(), [](Entry* record) { Entry::Destroy(record); },
        [](Node* node, size_t) { Nodes::Destroy(node); });
  }
  Masstree(const Masstree&) = delete;

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    const Entry* record = Descend(key).RecordOf(key);
    if (record == nullptr) return false;
    // If the key leaves the tree before its value is read, there is none, and it left meanwhile.
    const auto value = record->slot.Get(scope);
    if (value.data == nullptr) return false;
    f(value);
    return true;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    PreparedRecord<Values> prepared(scope);
    for (Backoff backoff;; backoff.Wait()) {
      const Path path = Descend(key);
      if (!path.exact && Nodes::Full(path.node)) {
        if (!SplitOnTheWay(key)) return false;
        continue;
      }
      // A value is copied before the lock is taken if the key is new.
      if (path.RecordOf(key) == nullptr && !prepared.Make(key, value)) return false;
      if (!path.node->version.LockIf(path.version)) continue;
      const Outcome outcome = PutLocked(scope, path, key, value, prepared);
      path.node->version.Unlock();
      if (outcome != Outcome::kMoved) return outcome == Outcome::kDone;
    }
  }

  bool Remove(Scope& scope, std::string_view key) {
    for (Backoff backoff;; backoff.Wait()) {
      const Path path = Descend(key);
      Entry* record = path.RecordOf(key);
      if (record == nullptr) return false;
      if (!path.node->version.LockIf(path.version)) continue;
      // Insertions do not move the version: look again.
      Border* border = path.border();
      const auto place = border->Find(border->Order(), Part(key, path.offset));
      const bool same = place.exact && border->At(border->Order()[place.index]).record() == record;
      if (same) {
        record->slot.Clear(scope);
        border->Remove(place.index);
      }
      const bool empty = border->Order().size() == 0;
      border->version.Unlock();
      if (!same) continue;
      RetireRecord<Values>(scope, record);
      if (empty) RemoveEmptyBorder(scope, key, path.offset);
      return true;
    }
  }

  template <class F>
  size_t Scan(Scope& scope, std::string_view from, size_t limit, F&& f) {
    size_t found = 0;
    Batch batch;
    KeyBuffer cursor;
    cursor.Assign(from);
    for (bool more = true; more && found < limit;) {
      more = NextBatch(cursor, batch);
      found += batch.Emit(scope, limit - found, f);
    }
    return found;
  }

  template <class F>
  void ForEach(F&& f) {
    Nodes::Walk(
        root_.load().node(), [&](Entry* record) { f(record->key(), record->slot); },
        [](Node*, size_t) {});
  }

  // Of each layer, with no operation running.
  std::vector<size_t> CountNodes() {
    std::vector<size_t> counts;
    Nodes::Walk(
        root_.load().node(), [](Entry*) {},
        [&](Node*, size_t layer) {
          counts.resize(std::max(counts.size(), layer + 1));
          ++counts[layer];
        });
    return counts;
  }

 private:
  using Batch = ScanBatch<Values, Permutation::kPlaces>;
  enum class Outcome { kDone, kMoved, kNoMemory };

  // Where a way down has come: a node, what the cell is in that it hangs on, and the versions of
  // both. When it has come to the end, what the border holds at the key's part: nothing, or a
  // record.
  struct Path {
    Node* node;
    Version version;
    size_t offset;  // of the layer's slices in the key
    VersionWord* above;
    Version above_version;
    LinkCell* cell;
    Interior* parent;               // that the cell is in; null: the node is the root of its layer
    std::optional<uint64_t> bound;  // slices of the node lie before it
    size_t index = 0;
    bool exact = false;
    Entry* record = nullptr;

    Border* border() const { return Nodes::AsBorder(node); }
    Entry* RecordOf(std::string_view key) const {
      return record != nullptr && record->key() == key ? record : nullptr;
    }
  };

  // To the root. False: begin again; so it is with the next ones.
  bool Enter(Path& path) {
    path = Path{};
    path.above = &root_version_;
    path.above_version = root_version_.Stable();
    path.cell = &root_;
    path.node = root_.load(std::memory_order_acquire).node();
    path.version = path.node->version.Stable();
    return root_version_.Unchanged(path.above_version);
  }

  // After the node was seen to change: takes its version anew unless keys may have left.
  static bool Refresh(Path& path) {
    const Version now = path.node->version.Stable();
    if (VersionWord::Split(path.version, now)) return false;
    path.version = now;
    return true;
  }

  // One node down, to `child`, which was read in `cell`.
  static bool StepTo(Path& path, Node* child, LinkCell* cell, Interior* parent,
                     std::optional<uint64_t> bound, size_t offset) {
    if (!path.node->version.Unchanged(path.version)) return Refresh(path);
    const Version version = child->version.Stable();
    if (!path.node->version.Unchanged(path.version)) return Refresh(path);
    path = Path{child, version, offset, &path.node->version, path.version, cell, parent, bound};
    return true;
  }

  static bool StepInterior(Path& path, std::string_view key) {
    Interior* interior = Nodes::AsInterior(path.node);
    const size_t index = interior->IndexOf(WordAt(key, path.offset));
    std::optional<uint64_t> bound = path.bound;
    if (index < interior->Size()) bound = interior->Slice(index);
    LinkCell* cell = &interior->children[index];
    return StepTo(path, cell->load(std::memory_order_acquire).node(), cell, interior, bound,
                  path.offset);
  }

  // In a border: into the layer below, or to the end.
  static bool StepBorder(Path& path, std::string_view key, bool& end) {
    Border* border = path.border();
    const Permutation places = border->Order();
    const Part part(key, path.offset);
    const auto found = border->Find(places, part);
    if (found.exact) {
      LinkCell* cell = &border->links[places[found.index]];
      const Link link = cell->load(std::memory_order_acquire);
      if (link.node() != nullptr) {
        return StepTo(path, link.node(), cell, nullptr, std::nullopt, path.offset + kWord);
      }
      path.record = link.record();
    } else {
      path.record = nullptr;
    }
    path.index = found.index;
    path.exact = found.exact;
    end = border->version.Unchanged(path.version);
    return end || Refresh(path);
  }

  bool TryDescend(std::string_view key, Path& path) {
    if (!Enter(path)) return false;
    for (bool end = false; !end;) {
      if (!(path.node->border ? StepBorder(path, key, end) : StepInterior(path, key))) return false;
    }
    return true;
  }
  Path Descend(std::string_view key) {
    Path path;
    for (Backoff backoff; !TryDescend(key, path);) backoff.Wait();
    return path;
  }

  Outcome PutLocked(Scope& scope, const Path& path, std::string_view key, std::string_view value,
                    PreparedRecord<Values>& prepared) {
    // Insertions do not move the version: look again.
    Border* border = path.border();
    const Permutation places = border->Order();
    const Part part(key, path.offset);
    const auto found = border->Find(places, part);
    if (!found.exact) {
      if (!prepared.made() || Nodes::Full(border)) return Outcome::kMoved;
      if (border->Reuses()) border->version.MarkInserting();
      border->Insert(found.index, part, Link(prepared.Take()));
      return Outcome::kDone;
    }
    LinkCell& cell = border->links[places[found.index]];
    Entry* record = cell.load(std::memory_order_relaxed).record();
    if (record == nullptr) return Outcome::kMoved;
    if (record->key() == key) {
      return record->slot.Set(scope, value) ? Outcome::kDone : Outcome::kNoMemory;
    }
    if (!prepared.made()) return Outcome::kMoved;
    Node* layer = Nodes::MakeLayer(record, prepared.get(), path.offset + kWord);
    if (layer == nullptr) return Outcome::kNoMemory;
    prepared.Take();
    cell.store(Link(layer), std::memory_order_release);
    return Outcome::kDone;
  }

  // The way of Descend, splitting full nodes of the last layer. After it there is room in the
  // border, or something else has changed. False: no memory.
  bool SplitOnTheWay(std::string_view key) {
    for (Backoff backoff;; backoff.Wait()) {
      const Path end = Descend(key);
      if (end.exact || !Nodes::Full(end.node)) return true;
      Path path;
      bool on_the_way = Enter(path);
      for (bool last = false; on_the_way && !last;) {
        if (path.offset == end.offset && Nodes::Full(path.node)) break;
        on_the_way = path.node->border ? StepBorder(path, key, last) : StepInterior(path, key);
      }
      if (!on_the_way || !Nodes::Full(path.node)) continue;
      if (Split(path, path.node == end.node && !end.bound && end.index == Permutation::kPlaces) ==
          Outcome::kNoMemory) {
        return false;
      }
    }
  }

  Outcome Split(const Path& path, bool at_end) {
    if (!path.above->LockIf(path.above_version)) return Outcome::kMoved;
    if (!path.node->version.LockIf(path.version)) {
      path.above->Unlock();
      return Outcome::kMoved;
    }
    Outcome outcome = Outcome::kMoved;
    if (Nodes::Full(path.node)) {
      path.above->MarkInserting();
      path.node->version.MarkSplitting();
      outcome = Nodes::Split(*path.cell, path.parent, path.node, at_end) ? Outcome::kDone
                                                                         : Outcome::kNoMemory;
    }
    path.node->version.Unlock();
    path.above->Unlock();
    return outcome;
  }

  bool NextBatch(KeyBuffer& cursor, Batch& batch);
  static bool Collect(const Path& path, std::string_view from, Batch& batch, KeyBuffer& next);
  static bool Above(std::string_view from, size_t offset, KeyBuffer& next);
  void RemoveEmptyBorder(Scope& scope, std::string_view key, size_t offset);

  VersionWord root_version_;  // of root_
  LinkCell root_;
};

}  // namespace crest

#include "index/masstree_remove_inl.h"
#include "index/masstree_scan_inl.h"
