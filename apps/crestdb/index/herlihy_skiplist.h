// The optimistic skip list of Herlihy, Lev, Luchangco and Shavit (SIROCCO 2007): searches take no
// lock; a change finds its place without, locks the nodes before it, looks whether they are still
// what it saw, and starts again if not. A node is there between the moment it is fully linked and
// that in which it is marked.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "index/skiplist_height.h"
#include "index/version_word.h"
#include "values/value_view.h"

namespace crest {

template <class Values>
class HerlihySkiplist {
  using Scope = typename Values::Scope;

 public:
  static constexpr bool ordered = true;

  explicit HerlihySkiplist(Values&) : head_(Make({}, kMostLevels)) {}
  ~HerlihySkiplist() {
    for (Node* n = head_; n != nullptr;) {
      Node* next = n->next(0).load();
      Destroy(n);
      n = next;
    }
  }

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    Node* n = AtLeast(key);
    if (n == nullptr || n->key() != key || !n->linked.load(std::memory_order_acquire)) return false;
    const ValueView v = n->slot.Get(scope);  // empty once the node is marked
    if (v.data != nullptr) f(v);
    return v.data != nullptr;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    const int height = RandomHeight();
    Node* fresh = nullptr;
    for (Backoff backoff;; backoff.Wait()) {
      Place at;
      if (Node* found = Find(key, &at)) {
        if (!found->linked.load(std::memory_order_acquire)) continue;  // somebody is putting it in
        const Replaced done = found->slot.Replace(scope, value);
        if (done == Replaced::kWasEmpty) continue;  // somebody is taking it out
        if (fresh != nullptr) Destroy(fresh);
        return done == Replaced::kYes;
      }
      if (fresh == nullptr) {
        fresh = Make(key, height);
        if (fresh == nullptr) return false;
        if (!fresh->slot.Set(scope, value)) {
          Destroy(fresh);
          return false;
        }
      }
      const int locked = LockBefore(at, height, [&](int level) {
        Node* after = at.after[level];
        return !at.before[level]->marked.load(std::memory_order_relaxed) &&
               (after == nullptr || !after->marked.load(std::memory_order_acquire)) &&
               at.before[level]->next(level).load(std::memory_order_relaxed) == after;
      });
      if (locked == height) {
        for (int level = 0; level < height; ++level)
          fresh->next(level).store(at.after[level], std::memory_order_relaxed);
        for (int level = 0; level < height; ++level)
          at.before[level]->next(level).store(fresh, std::memory_order_release);
        fresh->linked.store(true, std::memory_order_release);
      }
      UnlockBefore(at, locked);
      if (locked == height) return true;
    }
  }

  bool Remove(Scope& scope, std::string_view key) {
    Place at;
    Node* n = Find(key, &at);
    if (n == nullptr || !n->linked.load(std::memory_order_acquire)) return false;
    if (!n->slot.Clear(scope)) return false;  // another was first
    n->lock.Lock();
    n->marked.store(true, std::memory_order_release);
    for (Backoff backoff;; backoff.Wait()) {
      const int height = n->height;
      const int locked = LockBefore(at, height, [&](int level) {
        return !at.before[level]->marked.load(std::memory_order_relaxed) &&
               at.before[level]->next(level).load(std::memory_order_relaxed) == n;
      });
      if (locked == height) {
        for (int level = height - 1; level >= 0; --level)
          at.before[level]->next(level).store(n->next(level).load(std::memory_order_relaxed),
                                              std::memory_order_release);
      }
      UnlockBefore(at, locked);
      if (locked == height) break;
      Find(key, &at);
    }
    n->lock.Unlock();
    scope.Retire(n, [](void* p) { Destroy(static_cast<Node*>(p)); });
    return true;
  }

  template <class F>
  size_t Scan(Scope& scope, std::string_view from, size_t limit, F&& f) {
    size_t seen = 0;
    for (Node* n = AtLeast(from); n != nullptr && seen < limit;
         n = n->next(0).load(std::memory_order_acquire)) {
      if (!n->linked.load(std::memory_order_acquire)) continue;
      const ValueView v = n->slot.Get(scope);
      if (v.data == nullptr) continue;
      f(n->key(), v);
      ++seen;
    }
    return seen;
  }

  template <class F>
  void ForEach(F&& f) {
    for (Node* n = head_->next(0).load(); n != nullptr; n = n->next(0).load()) f(n->key(), n->slot);
  }

 private:
  // Spins: held for a few stores.
  class SpinLock {
   public:
    void Lock() {
      for (Backoff backoff; taken_.exchange(true, std::memory_order_acquire);) backoff.Wait();
    }
    void Unlock() { taken_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool> taken_{false};
  };
  struct Node {
    typename Values::Slot slot;
    SpinLock lock;
    std::atomic<bool> marked{false};  // written under the lock
    std::atomic<bool> linked{false};
    const uint8_t height;
    const uint8_t size;

    Node(std::string_view key, int levels)
        : height(static_cast<uint8_t>(levels)), size(static_cast<uint8_t>(key.size())) {
      for (int i = 0; i < levels; ++i) ::new (&next(i)) std::atomic<Node*>(nullptr);
      if (size != 0) std::memcpy(reinterpret_cast<char*>(&next(levels)), key.data(), key.size());
    }
    std::atomic<Node*>& next(int level) {
      return reinterpret_cast<std::atomic<Node*>*>(this + 1)[level];
    }
    std::string_view key() { return {reinterpret_cast<const char*>(&next(height)), size}; }
  };
  struct Place {
    std::array<Node*, kMostLevels> before, after;
  };

  static Node* Make(std::string_view key, int height) {
    void* memory = std::malloc(sizeof(Node) + sizeof(std::atomic<Node*>) * height + key.size());
    return memory == nullptr ? nullptr : ::new (memory) Node(key, height);
  }
  static void Destroy(Node* n) {
    n->~Node();
    std::free(n);
  }

  Node* AtLeast(std::string_view key) {
    Node* before = head_;
    for (int level = kMostLevels - 1;; --level) {
      Node* n = before->next(level).load(std::memory_order_acquire);
      while (n != nullptr && n->key() < key) {
        before = n;
        n = n->next(level).load(std::memory_order_acquire);
      }
      if (level == 0) return n;
    }
  }

  // The key's node, if it is met on any level.
  Node* Find(std::string_view key, Place* at) {
    Node* found = nullptr;
    Node* before = head_;
    for (int level = kMostLevels - 1; level >= 0; --level) {
      Node* n = before->next(level).load(std::memory_order_acquire);
      while (n != nullptr && n->key() < key) {
        before = n;
        n = n->next(level).load(std::memory_order_acquire);
      }
      if (found == nullptr && n != nullptr && n->key() == key) found = n;
      at->before[level] = before;
      at->after[level] = n;
    }
    return found;
  }

  // From below, each node once, as long as they are what was seen; on how many levels they are.
  template <class Valid>
  static int LockBefore(Place& at, int height, Valid valid) {
    for (int level = 0; level < height; ++level) {
      if (level == 0 || at.before[level] != at.before[level - 1]) at.before[level]->lock.Lock();
      if (!valid(level)) {
        // Counted as locked for its unlocking.
        UnlockBefore(at, level + 1);
        return 0;
      }
    }
    return height;
  }
  static void UnlockBefore(Place& at, int levels) {
    for (int level = 0; level < levels; ++level) {
      if (level == 0 || at.before[level] != at.before[level - 1]) at.before[level]->lock.Unlock();
    }
  }

  Node* const head_;
};

}  // namespace crest
