// What is done to whole nodes of MassTree; see masstree_nodes.h.
#pragma once

#include "index/masstree_nodes.h"

namespace crest {

template <class Values>
bool MasstreeNodes<Values>::Split(LinkCell& cell, Interior* parent, Node* node, bool at_end) {
  Interior* top = parent != nullptr ? parent : Make<Interior>();
  if (top == nullptr) return false;
  const Halves halves =
      node->border ? SplitBorder(AsBorder(node), at_end) : SplitInterior(AsInterior(node));
  if (halves.right == nullptr) {
    if (parent == nullptr) Destroy(top);
    return false;
  }
  if (parent == nullptr) top->children[0].store(Link(node), std::memory_order_relaxed);
  top->Insert(halves.slice, halves.right);
  if (parent == nullptr) cell.store(Link(static_cast<Node*>(top)), std::memory_order_release);
  return true;
}

template <class Values>
auto MasstreeNodes<Values>::SplitBorder(Border* border, bool at_end) -> Halves {
  Border* right = Make<Border>();
  if (right == nullptr) return {0, nullptr};
  Permutation places = border->Order();
  const size_t size = places.size();
  const auto between = [&](size_t at) {
    return border->Slice(places[at - 1]) != border->Slice(places[at]);
  };
  // The nearest place between two slices; there is one, see Part.
  size_t at = at_end ? size - 1 : size / 2;
  for (size_t away = 0;; ++away) {
    if (at + away < size && between(at + away)) {
      at += away;
      break;
    }
    if (at > away && between(at - away)) {
      at -= away;
      break;
    }
  }
  for (size_t i = at; i < size; ++i) {
    const size_t place = places[i];
    Part part({}, 0);
    part.slice = border->Slice(place);
    part.length = border->lengths[place].load(std::memory_order_relaxed);
    right->Insert(i - at, part, border->At(place));
  }
  places.Truncate(at);
  border->order.store(places.bits(), std::memory_order_release);
  return {right->Slice(right->Order()[0]), right};
}

template <class Values>
auto MasstreeNodes<Values>::SplitInterior(Interior* interior) -> Halves {
  constexpr size_t kMiddle = Interior::kCapacity / 2;
  Interior* right = Make<Interior>();
  if (right == nullptr) return {0, nullptr};
  for (size_t i = kMiddle + 1; i < Interior::kCapacity; ++i) {
    right->slices[i - kMiddle - 1].store(interior->Slice(i), std::memory_order_relaxed);
  }
  for (size_t i = kMiddle + 1; i <= Interior::kCapacity; ++i) {
    right->children[i - kMiddle - 1].store(Link(interior->Child(i)), std::memory_order_relaxed);
  }
  right->size.store(Interior::kCapacity - kMiddle - 1, std::memory_order_relaxed);
  interior->size.store(kMiddle, std::memory_order_release);
  return {interior->Slice(kMiddle), right};
}

template <class Values>
auto MasstreeNodes<Values>::MakeLayer(Entry* one, Entry* other, size_t offset) -> Node* {
  const Part mine(one->key(), offset), theirs(other->key(), offset);
  Border* border = Make<Border>();
  if (border == nullptr) return nullptr;
  if (mine == theirs && mine.length == Part::kGoesOn) {
    Node* below = MakeLayer(one, other, offset + kWord);
    if (below == nullptr) {
      Destroy(border);
      return nullptr;
    }
    border->Insert(0, mine, Link(below));
    return border;
  }
  border->Insert(0, mine, Link(one));
  border->Insert(border->Find(border->Order(), theirs).index, theirs, Link(other));
  return border;
}

template <class Values>
template <class Visit, class Leave>
void MasstreeNodes<Values>::Walk(Node* node, Visit&& visit, Leave&& leave, size_t layer) {
  if (node->border) {
    const Permutation places = AsBorder(node)->Order();
    for (size_t i = 0; i < places.size(); ++i) {
      const Link link = AsBorder(node)->At(places[i]);
      if (link.node() != nullptr) {
        Walk(link.node(), visit, leave, layer + 1);
      } else {
        visit(link.record());
      }
    }
  } else {
    for (size_t i = 0; i <= AsInterior(node)->Size(); ++i) {
      Walk(AsInterior(node)->Child(i), visit, leave, layer);
    }
  }
  leave(node, layer);
}

}  // namespace crest
