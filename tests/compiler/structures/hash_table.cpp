// A hash table with chains.
#include "drive.h"

#ifndef HAND
struct Node {
  Node(uint64_t k, uint64_t v) : key(k), value(v) {}
  uint64_t key, value;
  char payload[96] = {};
  GUIDE Node* next = nullptr;
};
struct Bucket {
  GUIDE Node* first = nullptr;
};
struct Table {
  Bucket buckets[4096];
  Bucket& Of(uint64_t key) { return buckets[key * 0x9e3779b97f4a7c15u >> 52]; }
};

OPERATION static void Put(Table& t, uint64_t key, uint64_t value) {
  Bucket& b = t.Of(key);
  for (Node* n = b.first; n != nullptr; n = n->next) {
    if (n->key == key) {
      n->value = value;
      return;
    }
  }
  Node* n = new Node(key, value);
  n->next = b.first;
  b.first = n;
}
OPERATION static uint64_t Get(Table& t, uint64_t key, Touched* touched) {
  for (Node* n = t.Of(key).first; n != nullptr; n = n->next) {
    if (touched != nullptr) touched->Add(n);
    if (n->key == key) return n->value;
  }
  return 0;
}
OPERATION static void Remove(Table& t, uint64_t key) {
  Bucket& b = t.Of(key);
  Node* before = nullptr;
  for (Node* n = b.first; n != nullptr; before = n, n = n->next) {
    if (n->key != key) continue;
    if (before == nullptr)
      b.first = n->next;
    else
      before->next = n->next;
    n->next = nullptr;
    delete n;
    return;
  }
}
#else
struct Node {
  Node(uint64_t k, uint64_t v) : key(k), value(v) {}
  uint64_t key, value;
  char payload[96] = {};
  strata::hot_ptr<Node> next;
};
struct Table {
  strata::hot_ptr<Node> buckets[4096];
  strata::hot_ptr<Node>& Of(uint64_t key) { return buckets[key * 0x9e3779b97f4a7c15u >> 52]; }
};

static void Put(Table& t, uint64_t key, uint64_t value) {
  strata::hot_scope op(Domain());
  strata::hot_ptr<Node>& first = t.Of(key);
  for (Node* n = first.get(op); n != nullptr; n = n->next.get(op)) {
    if (n->key == key) {
      n->value = value;
      return;
    }
  }
  strata::hot_ptr<Node> n = Domain().make<Node>(key, value);
  n.get(op)->next = std::move(first);
  first = std::move(n);
}
static uint64_t Get(Table& t, uint64_t key, Touched* touched) {
  strata::hot_scope op(Domain());
  for (Node* n = t.Of(key).get(op); n != nullptr; n = n->next.get(op)) {
    if (touched != nullptr) touched->Add(n);
    if (n->key == key) return n->value;
  }
  return 0;
}
static void Remove(Table& t, uint64_t key) {
  strata::hot_scope op(Domain());
  strata::hot_ptr<Node>* at = &t.Of(key);
  for (Node* n = at->get(op); n != nullptr; at = &n->next, n = at->get(op)) {
    if (n->key != key) continue;
    strata::hot_ptr<Node> rest = std::move(n->next);
    *at = std::move(rest);
    return;
  }
}
#endif

int main() {
  static auto& t = *new Table;
  return Drive(
      20'000, [](uint64_t key, uint64_t value) { Put(t, key, value); },
      [](uint64_t key, Touched* touched) { return Get(t, key, touched); },
      [](uint64_t key) { Remove(t, key); });
}
