// A list that keeps what was asked for last in front.
#include "drive.h"

#ifndef HAND
struct Node {
  Node(uint64_t k, uint64_t v) : key(k), value(v) {}
  uint64_t key, value;
  char payload[96] = {};
  GUIDE Node* next = nullptr;
};
struct List {
  GUIDE Node* first = nullptr;
};

// Takes the node out.
static Node* Take(List& l, uint64_t key, Touched* touched) {
  Node* before = nullptr;
  for (Node* n = l.first; n != nullptr; before = n, n = n->next) {
    if (touched != nullptr) touched->Add(n);
    if (n->key != key) continue;
    if (before == nullptr)
      l.first = n->next;
    else
      before->next = n->next;
    n->next = nullptr;
    return n;
  }
  return nullptr;
}
static void PutFirst(List& l, Node* n) {
  n->next = l.first;
  l.first = n;
}
OPERATION static void Put(List& l, uint64_t key, uint64_t value) {
  Node* n = Take(l, key, nullptr);
  if (n == nullptr) n = new Node(key, value);
  n->value = value;
  PutFirst(l, n);
}
OPERATION static uint64_t Get(List& l, uint64_t key, Touched* touched) {
  Node* n = Take(l, key, touched);
  if (n == nullptr) return 0;
  PutFirst(l, n);
  return n->value;
}
OPERATION static void Remove(List& l, uint64_t key) {
  Node* n = Take(l, key, nullptr);
  if (n != nullptr) delete n;
}
#else
struct Node {
  Node(uint64_t k, uint64_t v) : key(k), value(v) {}
  uint64_t key, value;
  char payload[96] = {};
  strata::hot_ptr<Node> next;
};
struct List {
  strata::hot_ptr<Node> first;
};

static strata::hot_ptr<Node> Take(strata::hot_scope& op, List& l, uint64_t key, Touched* touched) {
  strata::hot_ptr<Node>* at = &l.first;
  for (Node* n = at->get(op); n != nullptr; at = &n->next, n = at->get(op)) {
    if (touched != nullptr) touched->Add(n);
    if (n->key != key) continue;
    strata::hot_ptr<Node> taken = std::move(*at);
    *at = std::move(n->next);
    return taken;
  }
  return {};
}
static void PutFirst(strata::hot_scope& op, List& l, strata::hot_ptr<Node> n) {
  n.get(op)->next = std::move(l.first);
  l.first = std::move(n);
}
static void Put(List& l, uint64_t key, uint64_t value) {
  strata::hot_scope op(Domain());
  strata::hot_ptr<Node> n = Take(op, l, key, nullptr);
  if (!n) n = Domain().make<Node>(key, value);
  n.get(op)->value = value;
  PutFirst(op, l, std::move(n));
}
static uint64_t Get(List& l, uint64_t key, Touched* touched) {
  strata::hot_scope op(Domain());
  strata::hot_ptr<Node> n = Take(op, l, key, touched);
  if (!n) return 0;
  const uint64_t value = n.get(op)->value;
  PutFirst(op, l, std::move(n));
  return value;
}
static void Remove(List& l, uint64_t key) {
  strata::hot_scope op(Domain());
  Take(op, l, key, nullptr);
}
#endif

int main() {
  static auto& l = *new List;
  return Drive(
      1'600, [](uint64_t key, uint64_t value) { Put(l, key, value); },
      [](uint64_t key, Touched* touched) { return Get(l, key, touched); },
      [](uint64_t key) { Remove(l, key); });
}
