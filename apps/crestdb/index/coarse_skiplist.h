// A skip list (Pugh, CACM 33(6), 1990) under one lock.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>

#include "index/skiplist_height.h"
#include "values/value_view.h"

namespace crest {

template <class Values>
class CoarseSkiplist {
  using Scope = typename Values::Scope;

 public:
  static constexpr bool ordered = true;

  explicit CoarseSkiplist(Values&) {}
  ~CoarseSkiplist() {
    for (Node* n = heads_[0]; n != nullptr;) {
      Node* next = n->next[0];
      Destroy(n);
      n = next;
    }
  }

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    ValueView v;
    {
      const std::lock_guard hold(lock_);
      Node* n = *Find(key, nullptr);
      if (n != nullptr && n->key() == key) v = n->slot.Get(scope);
    }
    if (v.data != nullptr) f(v);
    return v.data != nullptr;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    const std::lock_guard hold(lock_);
    std::array<Node**, kMostLevels> links;
    Node* n = *Find(key, &links);
    if (n != nullptr && n->key() == key) return n->slot.Set(scope, value);
    const int height = RandomHeight();
    n = Make(key, height);
    if (n == nullptr) return false;
    if (!n->slot.Set(scope, value)) {
      Destroy(n);
      return false;
    }
    for (int level = 0; level < height; ++level) {
      n->next[level] = *links[level];
      *links[level] = n;
    }
    return true;
  }

  bool Remove(Scope& scope, std::string_view key) {
    const std::lock_guard hold(lock_);
    std::array<Node**, kMostLevels> links;
    Node* n = *Find(key, &links);
    if (n == nullptr || n->key() != key) return false;
    for (int level = 0; level < n->height; ++level) *links[level] = n->next[level];
    n->slot.Clear(scope);
    Destroy(n);
    return true;
  }

  template <class F>
  size_t Scan(Scope& scope, std::string_view from, size_t limit, F&& f) {
    const std::lock_guard hold(lock_);
    size_t seen = 0;
    for (Node* n = *Find(from, nullptr); n != nullptr && seen < limit; n = n->next[0], ++seen)
      f(n->key(), n->slot.Get(scope));
    return seen;
  }

  template <class F>
  void ForEach(F&& f) {
    for (Node* n = heads_[0]; n != nullptr; n = n->next[0]) f(n->key(), n->slot);
  }

 private:
  struct Node {
    typename Values::Slot slot;
    uint8_t size;
    uint8_t height;
    Node* next[1];  // `height` of them, then the key

    std::string_view key() const { return {reinterpret_cast<const char*>(next + height), size}; }
  };

  static Node* Make(std::string_view key, int height) {
    void* memory = std::malloc(sizeof(Node) + sizeof(Node*) * (height - 1) + key.size());
    if (memory == nullptr) return nullptr;
    auto* n = ::new (memory) Node;
    n->size = static_cast<uint8_t>(key.size());
    n->height = static_cast<uint8_t>(height);
    std::memcpy(reinterpret_cast<char*>(n->next + height), key.data(), key.size());
    return n;
  }
  static void Destroy(Node* n) {
    n->~Node();
    std::free(n);
  }

  // The link to the first node that is not less; `links`: that of each level.
  Node** Find(std::string_view key, std::array<Node**, kMostLevels>* links) {
    Node** tower = heads_.data();
    for (int level = kMostLevels - 1;; --level) {
      while (tower[level] != nullptr && tower[level]->key() < key) tower = tower[level]->next;
      if (links != nullptr) (*links)[level] = &tower[level];
      if (level == 0) return &tower[0];
    }
  }

  std::mutex lock_;
  std::array<Node*, kMostLevels> heads_{};
};

}  // namespace crest
