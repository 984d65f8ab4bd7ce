// How empty borders and empty layers leave MassTree (masstree.h).
#pragma once

#include "index/masstree.h"

namespace crest {

// Takes the border that the key belongs to in the layer at `target` out if it is empty. Goes down
// with locks, holding those of three nodes in a row: an interior node that is left with one child
// gives way to it, which changes the node above. With the last border of a layer goes the link to
// this, and then perhaps the border that the link was in.
template <class Values>
void Masstree<Values>::RemoveEmptyBorder(Scope& scope, std::string_view key, size_t target) {
  VersionWord* top = &root_version_;  // of what `to_parent` is in, or `to_node` while that is root_
  LinkCell* to_parent = nullptr;
  LinkCell* to_node = &root_;
  Node* parent = nullptr;
  size_t index = 0;  // of `node` in `parent`
  size_t offset = 0;
  top->Lock();
  Node* node = to_node->load(std::memory_order_relaxed).node();
  node->version.Lock();
  while (!node->border || offset != target) {
    LinkCell* cell;
    if (node->border) {
      Border* border = Nodes::AsBorder(node);
      const auto found = border->Find(border->Order(), Part(key, offset));
      if (!found.exact) break;
      cell = &border->links[border->Order()[found.index]];
      if (cell->load(std::memory_order_relaxed).node() == nullptr) break;
      index = found.index;
      offset += kWord;
    } else {
      index = Nodes::AsInterior(node)->IndexOf(WordAt(key, offset));
      cell = &Nodes::AsInterior(node)->children[index];
    }
    if (parent != nullptr) {
      top->Unlock();
      top = &parent->version;
    }
    to_parent = to_node;
    parent = node;
    to_node = cell;
    node = cell->load(std::memory_order_relaxed).node();
    node->version.Lock();
  }

  const auto empty = [](Node* one) {
    return one->border && Nodes::AsBorder(one)->Order().size() == 0;
  };
  bool layer_gone = false;
  Node* parent_gone = nullptr;
  const bool gone = parent != nullptr && offset == target && empty(node);
  if (gone) {
    if (parent->border) {
      parent->version.MarkInserting();
      Nodes::AsBorder(parent)->Remove(index);
      layer_gone = empty(parent);
    } else if (Nodes::AsInterior(parent)->Size() > 1) {
      parent->version.MarkInserting();
      Nodes::AsInterior(parent)->Remove(index);
    } else {
      top->MarkInserting();
      to_parent->store(Link(Nodes::AsInterior(parent)->Child(1 - index)),
                       std::memory_order_release);
      parent->version.MarkDeleted();
      parent_gone = parent;
    }
    node->version.MarkDeleted();
  }
  node->version.Unlock();
  if (parent != nullptr) parent->version.Unlock();
  top->Unlock();

  if (gone) scope.Retire(node, &std::free);
  if (parent_gone != nullptr) scope.Retire(parent_gone, &std::free);
  if (layer_gone) RemoveEmptyBorder(scope, key, target - kWord);
}

}  // namespace crest
