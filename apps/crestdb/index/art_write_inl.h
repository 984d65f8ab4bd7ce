// How the adaptive radix tree (art.h) changes. Each function here comes with a way down that holds
// a node and its parent to read, or alone. It decides by what it sees, has those that it changes to
// itself next (nothing can happen in between), and gets all memory before it changes anything.
#pragma once

#include "index/art.h"

namespace crest {

template <class Values>
auto Art<Values>::TryPut(Scope& scope, Way& way, std::string_view key, std::string_view value,
                         PreparedRecord<Values>& prepared) -> Outcome {
  for (size_t depth = 0;; ++depth) {
    Node* node = way.node.get();
    const size_t common = CommonPrefix(node->prefix.view(), key.substr(depth));
    if (common < node->prefix.view().size()) return SplitPrefix(way, key, depth, common, prepared);
    depth += common;
    if (depth == key.size()) {
      if (node->ends != nullptr) return Overwrite(scope, node->ends, value);
      if (!prepared.made()) return Outcome::kPrepare;
      if (!way.Own()) return Outcome::kExclude;
      node->ends = prepared.Take();
      return Outcome::kDone;
    }
    Link* link = Nodes::Find(node, ByteAt(key, depth));
    if (link == nullptr) return InsertChild(way, ByteAt(key, depth), prepared);
    if (Entry* record = link->record(); record != nullptr) {
      if (record->key() == key) return Overwrite(scope, record, value);
      return SplitRecord(way, link, key, depth + 1, prepared);
    }
    way.StepTo(link);
  }
}

// Others may hold the node to read and overwrite the same record; nobody can remove it.
template <class Values>
auto Art<Values>::Overwrite(Scope& scope, Entry* record, std::string_view value) -> Outcome {
  record->writing.Lock();
  const bool done = record->slot.Set(scope, value);
  record->writing.Unlock();
  return done ? Outcome::kDone : Outcome::kNoMemory;
}

template <class Values>
auto Art<Values>::InsertChild(Way& way, uint8_t byte, PreparedRecord<Values>& prepared) -> Outcome {
  if (!prepared.made()) return Outcome::kPrepare;
  Node* node = way.node.get();
  if (!Nodes::Full(node)) {
    if (!way.Own()) return Outcome::kExclude;
    Nodes::Insert(node, byte, Link(prepared.Take()));
    return Outcome::kDone;
  }
  if (!way.OwnBoth()) return Outcome::kExclude;
  Node* grown = Nodes::Grown(node);
  if (grown == nullptr) return Outcome::kNoMemory;
  Nodes::Insert(grown, byte, Link(prepared.Take()));
  *way.link = Link(grown);
  way.node.Destroy();
  return Outcome::kDone;
}

// The record under a node whose prefix ends at `depth` of the key.
template <class Values>
void Art<Values>::Hang(Node* node, std::string_view key, size_t depth, Entry* record) {
  if (depth == key.size()) {
    node->ends = record;
  } else {
    Nodes::Insert(node, ByteAt(key, depth), Link(record));
  }
}

// The key leaves the node's prefix behind `common` bytes: a node for these goes above.
template <class Values>
auto Art<Values>::SplitPrefix(Way& way, std::string_view key, size_t depth, size_t common,
                              PreparedRecord<Values>& prepared) -> Outcome {
  if (!prepared.made()) return Outcome::kPrepare;
  if (!way.OwnBoth()) return Outcome::kExclude;
  Node* node = way.node.get();
  auto* top = Nodes::template Make<typename Nodes::Node4>();
  if (top == nullptr) return Outcome::kNoMemory;
  if (!top->prefix.Assign(node->prefix.view().substr(0, common))) {
    Nodes::Destroy(top);
    return Outcome::kNoMemory;
  }
  Nodes::Insert(top, ByteAt(node->prefix.view(), common), Link(node));
  node->prefix.Cut(common + 1);
  Hang(top, key, depth + common, prepared.Take());
  *way.link = Link(static_cast<Node*>(top));
  return Outcome::kDone;
}

// Another record is where the key's would go (lazy expansion): both go under a new node, which
// skips what they share from `depth` on.
template <class Values>
auto Art<Values>::SplitRecord(Way& way, Link* link, std::string_view key, size_t depth,
                              PreparedRecord<Values>& prepared) -> Outcome {
  if (!prepared.made()) return Outcome::kPrepare;
  if (!way.Own()) return Outcome::kExclude;
  Entry* other = link->record();
  const size_t common = CommonPrefix(other->key().substr(depth), key.substr(depth));
  auto* top = Nodes::template Make<typename Nodes::Node4>();
  if (top == nullptr) return Outcome::kNoMemory;
  if (!top->prefix.Assign(key.substr(depth, common))) {
    Nodes::Destroy(top);
    return Outcome::kNoMemory;
  }
  Hang(top, other->key(), depth + common, other);
  Hang(top, key, depth + common, prepared.Take());
  *link = Link(static_cast<Node*>(top));
  return Outcome::kDone;
}

template <class Values>
auto Art<Values>::TryRemove(Scope& scope, Way& way, std::string_view key) -> Outcome {
  for (size_t depth = 0;; ++depth) {
    Node* node = way.node.get();
    const std::string_view prefix = node->prefix.view();
    if (!key.substr(depth).starts_with(prefix)) return Outcome::kAbsent;
    depth += prefix.size();
    if (depth == key.size()) {
      return node->ends == nullptr ? Outcome::kAbsent
                                   : RemoveFrom(scope, way, key, depth, node->ends);
    }
    Link* link = Nodes::Find(node, ByteAt(key, depth));
    if (link == nullptr) return Outcome::kAbsent;
    if (Entry* record = link->record(); record != nullptr) {
      return record->key() == key ? RemoveFrom(scope, way, key, depth, record) : Outcome::kAbsent;
    }
    way.StepTo(link);
  }
}

// The record hangs on the node of the way, whose prefix ends at `depth`. A node that is left with
// one of whatever it had gives way to it, one that is left with few becomes a smaller one.
template <class Values>
auto Art<Values>::RemoveFrom(Scope& scope, Way& way, std::string_view key, size_t depth,
                             Entry* record) -> Outcome {
  Node* node = way.node.get();
  const bool ends = depth == key.size();
  const size_t left = node->Size() - 1;
  const bool shrinks = Nodes::TooLarge(node->kind, node->children - (ends ? 0u : 1u));
  const bool replaced = way.parent && (left <= 1 || shrinks);
  if (!(replaced ? way.OwnBoth() : way.Own())) return Outcome::kExclude;
  record->slot.Clear(scope);
  if (ends) {
    node->ends = nullptr;
  } else {
    Nodes::Remove(node, ByteAt(key, depth));
  }
  RetireRecord<Values>(scope, record);
  if (!replaced) return Outcome::kDone;

  if (left == 0) {  // it had but one, since there was no memory when it should have gone
    Nodes::Remove(way.parent.get(), ByteAt(key, depth - node->prefix.view().size() - 1));
    way.node.Destroy();
  } else if (left == 1) {
    ReplaceByLast(way);
  } else if (Node* smaller = Nodes::Shrunk(node); smaller != nullptr) {
    *way.link = Link(smaller);
    way.node.Destroy();
  }
  return Outcome::kDone;
}

template <class Values>
void Art<Values>::ReplaceByLast(Way& way) {
  Node* node = way.node.get();
  if (node->ends != nullptr) {
    *way.link = Link(node->ends);
  } else {
    const Child last = Nodes::Next(node, 0);
    if (Node* below = last.link->node(); below != nullptr) {
      // It takes over what this one skipped.
      const Held held(below, Mode::kExclusive);
      KeyBuffer joined;
      joined.Assign(node->prefix.view());
      joined.Append(static_cast<char>(last.byte));
      joined.Append(below->prefix.view());
      if (!below->prefix.Assign(joined.view())) return;  // then it stays where it is
    }
    *way.link = *last.link;
  }
  way.node.Destroy();
}

}  // namespace crest
