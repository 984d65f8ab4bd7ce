// A treap: its shape follows from the keys alone.
#include "drive.h"

constexpr uint64_t PriorityOf(uint64_t key) { return (key + 1) * 0x9e3779b97f4a7c15u >> 8; }

#ifndef HAND
struct Node {
  Node(uint64_t k, uint64_t v) : key(k), value(v) {}
  uint64_t key, value;
  char payload[96] = {};
  GUIDE Node* left = nullptr;
  GUIDE Node* right = nullptr;
};
struct Tree {
  GUIDE Node* root = nullptr;
};

static Node* Merge(Node* a, Node* b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  if (PriorityOf(a->key) > PriorityOf(b->key)) {
    a->right = Merge(a->right, b);
    return a;
  }
  b->left = Merge(a, b->left);
  return b;
}
// Splits n into what is below the key and the rest.
static void Split(Node* n, uint64_t key, Node** below, Node** rest) {
  if (n == nullptr) {
    *below = *rest = nullptr;
  } else if (n->key < key) {
    Node* part = nullptr;
    Split(n->right, key, &part, rest);
    n->right = part;
    *below = n;
  } else {
    Node* part = nullptr;
    Split(n->left, key, below, &part);
    n->left = part;
    *rest = n;
  }
}
static Node* Find(Tree& t, uint64_t key, Touched* touched) {
  Node* n = t.root;
  while (n != nullptr) {
    if (touched != nullptr) touched->Add(n);
    if (n->key == key) return n;
    if (key < n->key)
      n = n->left;
    else
      n = n->right;
  }
  return nullptr;
}
OPERATION static void Put(Tree& t, uint64_t key, uint64_t value) {
  if (Node* n = Find(t, key, nullptr)) {
    n->value = value;
    return;
  }
  Node* below = nullptr;
  Node* rest = nullptr;
  Split(t.root, key, &below, &rest);
  t.root = Merge(Merge(below, new Node(key, value)), rest);
}
OPERATION static uint64_t Get(Tree& t, uint64_t key, Touched* touched) {
  Node* n = Find(t, key, touched);
  return n == nullptr ? 0 : n->value;
}
OPERATION static void Remove(Tree& t, uint64_t key) {
  if (Find(t, key, nullptr) == nullptr) return;
  Node *below = nullptr, *rest = nullptr, *only = nullptr, *above = nullptr;
  Split(t.root, key, &below, &rest);
  Split(rest, key + 1, &only, &above);
  t.root = Merge(below, above);
  delete only;
}
#else
struct Node {
  Node(uint64_t k, uint64_t v) : key(k), value(v) {}
  uint64_t key, value;
  char payload[96] = {};
  strata::hot_ptr<Node> left, right;
};
using Owner = strata::hot_ptr<Node>;
struct Tree {
  Owner root;
};

static Owner Merge(strata::hot_scope& op, Owner a, Owner b) {
  if (!a) return b;
  if (!b) return a;
  Node *left = a.get(op), *right = b.get(op);
  if (PriorityOf(left->key) > PriorityOf(right->key)) {
    left->right = Merge(op, std::move(left->right), std::move(b));
    return a;
  }
  right->left = Merge(op, std::move(a), std::move(right->left));
  return b;
}
static void Split(strata::hot_scope& op, Owner whole, uint64_t key, Owner* below, Owner* rest) {
  Node* n = whole.get(op);
  if (n == nullptr) return;
  Owner part;
  if (n->key < key) {
    Split(op, std::move(n->right), key, &part, rest);
    n->right = std::move(part);
    *below = std::move(whole);
  } else {
    Split(op, std::move(n->left), key, below, &part);
    n->left = std::move(part);
    *rest = std::move(whole);
  }
}
static Node* Find(strata::hot_scope& op, Tree& t, uint64_t key, Touched* touched) {
  Node* n = t.root.get(op);
  while (n != nullptr) {
    if (touched != nullptr) touched->Add(n);
    if (n->key == key) return n;
    n = (key < n->key ? n->left : n->right).get(op);
  }
  return nullptr;
}
static void Put(Tree& t, uint64_t key, uint64_t value) {
  strata::hot_scope op(Domain());
  if (Node* n = Find(op, t, key, nullptr)) {
    n->value = value;
    return;
  }
  Owner below, rest;
  Split(op, std::move(t.root), key, &below, &rest);
  t.root = Merge(op, Merge(op, std::move(below), Domain().make<Node>(key, value)), std::move(rest));
}
static uint64_t Get(Tree& t, uint64_t key, Touched* touched) {
  strata::hot_scope op(Domain());
  const Node* n = Find(op, t, key, touched);
  return n == nullptr ? 0 : n->value;
}
static void Remove(Tree& t, uint64_t key) {
  strata::hot_scope op(Domain());
  if (Find(op, t, key, nullptr) == nullptr) return;
  Owner below, rest, only, above;
  Split(op, std::move(t.root), key, &below, &rest);
  Split(op, std::move(rest), key + 1, &only, &above);
  t.root = Merge(op, std::move(below), std::move(above));
}
#endif

int main() {
  static auto& t = *new Tree;
  return Drive(
      20'000, [](uint64_t key, uint64_t value) { Put(t, key, value); },
      [](uint64_t key, Touched* touched) { return Get(t, key, touched); },
      [](uint64_t key) { Remove(t, key); });
}
