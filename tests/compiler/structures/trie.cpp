// A tree of 16 children a node by four bits of the key each; values lie in leaves of their own.
#include "drive.h"

constexpr int kLevels = 4;
constexpr int Digit(uint64_t key, int level) {
  return static_cast<int>(key >> 4 * (kLevels - 1 - level) & 15);
}

#ifndef HAND
struct Leaf {
  explicit Leaf(uint64_t v) : value(v) {}
  uint64_t value;
  char payload[184] = {};
};
struct Inner;
struct Slot {
  GUIDE Inner* inner = nullptr;
  GUIDE Leaf* leaf = nullptr;
};
struct Inner {
  Slot slots[16];
};
struct Trie {
  GUIDE Inner* root = nullptr;
};

static Slot* SlotOf(Trie& t, uint64_t key, Touched* touched) {
  Inner* n = t.root;
  for (int level = 0; n != nullptr; ++level) {
    if (touched != nullptr) touched->Add(n);
    Slot& s = n->slots[Digit(key, level)];
    if (level == kLevels - 1) return &s;
    n = s.inner;
  }
  return nullptr;
}
OPERATION static void Put(Trie& t, uint64_t key, uint64_t value) {
  if (t.root == nullptr) t.root = new Inner();
  Inner* n = t.root;
  for (int level = 0; level + 1 < kLevels; ++level) {
    Slot& s = n->slots[Digit(key, level)];
    if (s.inner == nullptr) s.inner = new Inner();
    n = s.inner;
  }
  Slot& s = n->slots[Digit(key, kLevels - 1)];
  Leaf* leaf = s.leaf;
  if (leaf == nullptr)
    s.leaf = new Leaf(value);
  else
    leaf->value = value;
}
OPERATION static uint64_t Get(Trie& t, uint64_t key, Touched* touched) {
  Slot* s = SlotOf(t, key, touched);
  if (s == nullptr) return 0;
  Leaf* leaf = s->leaf;
  if (leaf == nullptr) return 0;
  if (touched != nullptr) touched->Add(leaf);
  return leaf->value;
}
OPERATION static void Remove(Trie& t, uint64_t key) {
  Slot* s = SlotOf(t, key, nullptr);
  if (s == nullptr) return;
  Leaf* leaf = s->leaf;
  s->leaf = nullptr;
  delete leaf;
}
#else
struct Leaf {
  explicit Leaf(uint64_t v) : value(v) {}
  uint64_t value;
  char payload[184] = {};
};
struct Inner {
  struct Slot {
    strata::hot_ptr<Inner> inner;
    strata::hot_ptr<Leaf> leaf;
  };
  Slot slots[16];
};
struct Trie {
  strata::hot_ptr<Inner> root;
};

static Inner::Slot* SlotOf(strata::hot_scope& op, Trie& t, uint64_t key, Touched* touched) {
  Inner* n = t.root.get(op);
  for (int level = 0; n != nullptr; ++level) {
    if (touched != nullptr) touched->Add(n);
    Inner::Slot& s = n->slots[Digit(key, level)];
    if (level == kLevels - 1) return &s;
    n = s.inner.get(op);
  }
  return nullptr;
}
static void Put(Trie& t, uint64_t key, uint64_t value) {
  strata::hot_scope op(Domain());
  if (!t.root) t.root = Domain().make<Inner>();
  Inner* n = t.root.get(op);
  for (int level = 0; level + 1 < kLevels; ++level) {
    Inner::Slot& s = n->slots[Digit(key, level)];
    if (!s.inner) s.inner = Domain().make<Inner>();
    n = s.inner.get(op);
  }
  strata::hot_ptr<Leaf>& leaf = n->slots[Digit(key, kLevels - 1)].leaf;
  if (leaf)
    leaf.get(op)->value = value;
  else
    leaf = Domain().make<Leaf>(value);
}
static uint64_t Get(Trie& t, uint64_t key, Touched* touched) {
  strata::hot_scope op(Domain());
  Inner::Slot* s = SlotOf(op, t, key, touched);
  const Leaf* leaf = s == nullptr ? nullptr : s->leaf.get(op);
  if (leaf == nullptr) return 0;
  if (touched != nullptr) touched->Add(leaf);
  return leaf->value;
}
static void Remove(Trie& t, uint64_t key) {
  strata::hot_scope op(Domain());
  if (Inner::Slot* s = SlotOf(op, t, key, nullptr)) s->leaf.reset();
}
#endif

int main() {
  static auto& t = *new Trie;
  return Drive(
      20'000, [](uint64_t key, uint64_t value) { Put(t, key * 3 % 65'536, value); },
      [](uint64_t key, Touched* touched) { return Get(t, key * 3 % 65'536, touched); },
      [](uint64_t key) { Remove(t, key * 3 % 65'536); });
}
