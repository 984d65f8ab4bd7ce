// The lock-free skip list of Fraser (UCAM-CL-TR-579, 2004): each level a list after Harris, links
// changed by compare-and-swap alone. A key is there while its slot holds a value; the slot is
// emptied once, then the node's links are marked from the top, and searches unlink it. The node is
// freed when both who put it in and who took it out have left it, the last of them after a search
// that unlinks it on every level.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "index/skiplist_height.h"
#include "values/value_view.h"

namespace crest {

template <class Values>
class FraserSkiplist {
  using Scope = typename Values::Scope;

 public:
  static constexpr bool ordered = true;

  explicit FraserSkiplist(Values&) : head_(Make({}, kMostLevels)) {}
  ~FraserSkiplist() {
    for (Node* n = head_; n != nullptr;) {
      Node* next = NodeOf(n->next(0).load());
      Destroy(n);
      n = next;
    }
  }

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    Node* n = AtLeast(key);
    if (n == nullptr || n->key() != key) return false;
    const ValueView v = n->slot.Get(scope);
    if (v.data != nullptr) f(v);
    return v.data != nullptr;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    Node* fresh = nullptr;
    for (;;) {
      Place at;
      if (Node* found = Find(key, &at)) {
        const Replaced done = found->slot.Replace(scope, value);
        if (done == Replaced::kWasEmpty) {
          MarkAll(found);  // help; the next search unlinks it
          continue;
        }
        if (fresh != nullptr) Destroy(fresh);
        return done == Replaced::kYes;
      }
      if (fresh == nullptr) {
        fresh = Make(key, RandomHeight());
        if (fresh == nullptr) return false;
        if (!fresh->slot.Set(scope, value)) {
          Destroy(fresh);
          return false;
        }
      }
      for (int level = 0; level < fresh->height; ++level)
        fresh->next(level).store(LinkTo(at.after[level]), std::memory_order_relaxed);
      Link expected = LinkTo(at.after[0]);
      if (at.before[0]->next(0).compare_exchange_strong(expected, LinkTo(fresh),
                                                        std::memory_order_acq_rel))
        break;
    }
    LinkAbove(fresh);
    LeaveNode(scope, fresh);
    return true;
  }

  bool Remove(Scope& scope, std::string_view key) {
    Place at;
    Node* n = Find(key, &at);
    if (n == nullptr || !n->slot.Clear(scope)) return false;
    MarkAll(n);
    LeaveNode(scope, n);
    return true;
  }

  template <class F>
  size_t Scan(Scope& scope, std::string_view from, size_t limit, F&& f) {
    size_t seen = 0;
    for (Node* n = AtLeast(from); n != nullptr && seen < limit;
         n = NodeOf(n->next(0).load(std::memory_order_acquire))) {
      const ValueView v = n->slot.Get(scope);
      if (v.data == nullptr) continue;
      f(n->key(), v);
      ++seen;
    }
    return seen;
  }

  template <class F>
  void ForEach(F&& f) {
    for (Node* n = NodeOf(head_->next(0).load()); n != nullptr; n = NodeOf(n->next(0).load()))
      f(n->key(), n->slot);
  }

 private:
  // The address of the next node; bit 0: the node that holds this link is removed.
  using Link = uintptr_t;

  struct Node {
    typename Values::Slot slot;
    std::atomic<uint8_t> users{2};  // who puts it in, and who takes it out
    const uint8_t height;
    const uint8_t size;

    Node(std::string_view key, int levels)
        : height(static_cast<uint8_t>(levels)), size(static_cast<uint8_t>(key.size())) {
      for (int i = 0; i < levels; ++i) ::new (&next(i)) std::atomic<Link>(0);
      if (size != 0) std::memcpy(reinterpret_cast<char*>(&next(levels)), key.data(), key.size());
    }
    std::atomic<Link>& next(int level) {
      return reinterpret_cast<std::atomic<Link>*>(this + 1)[level];
    }
    std::string_view key() { return {reinterpret_cast<const char*>(&next(height)), size}; }
  };
  struct Place {
    std::array<Node*, kMostLevels> before, after;
  };

  static Node* NodeOf(Link link) { return reinterpret_cast<Node*>(link & ~Link{1}); }
  static Link LinkTo(Node* n) { return reinterpret_cast<Link>(n); }
  static Node* Make(std::string_view key, int height) {
    void* memory = std::malloc(sizeof(Node) + sizeof(std::atomic<Link>) * height + key.size());
    return memory == nullptr ? nullptr : ::new (memory) Node(key, height);
  }
  static void Destroy(void* node) {
    static_cast<Node*>(node)->~Node();
    std::free(node);
  }

  static void MarkAll(Node* n) {
    for (int level = n->height - 1; level >= 0; --level)
      n->next(level).fetch_or(1, std::memory_order_acq_rel);
  }

  // The last of the two unlinks it everywhere. No link to it comes into being any more: who would
  // make one has seen its level unmarked, and his exchange fails.
  void LeaveNode(Scope& scope, Node* n) {
    if (n->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    Place at;
    Find(n->key(), &at);
    scope.Retire(n, &Destroy);
  }

  // On the levels above the lowest, unless it is removed meanwhile.
  void LinkAbove(Node* fresh) {
    for (int level = 1; level < fresh->height; ++level) {
      for (;;) {
        Place at;
        if (Find(fresh->key(), &at) != fresh) return;
        Link mine = fresh->next(level).load(std::memory_order_acquire);
        if ((mine & 1) != 0) return;
        if (NodeOf(mine) != at.after[level] &&
            !fresh->next(level).compare_exchange_strong(mine, LinkTo(at.after[level]),
                                                        std::memory_order_acq_rel))
          continue;
        Link expected = LinkTo(at.after[level]);
        if (at.before[level]->next(level).compare_exchange_strong(expected, LinkTo(fresh),
                                                                  std::memory_order_acq_rel))
          break;
      }
    }
  }

  // Changes nothing, unless it comes down on a node that was removed. What such a node points to on
  // the lower levels may be long gone: its maker links it high up while others, who did not meet it
  // there, have unlinked it below.
  Node* AtLeast(std::string_view key) {
    Node* before = head_;
    for (int level = kMostLevels - 1;; --level) {
      const Link first = before->next(level).load(std::memory_order_acquire);
      if ((first & 1) != 0) {
        Place at;
        Find(key, &at);
        return at.after[0];
      }
      Node* n = NodeOf(first);
      while (n != nullptr && n->key() < key) {
        before = n;
        n = NodeOf(n->next(level).load(std::memory_order_acquire));
      }
      // Removed ones of the same key stand before the one that is there.
      while (level == 0 && n != nullptr && (n->next(0).load(std::memory_order_acquire) & 1) != 0 &&
             n->key() == key)
        n = NodeOf(n->next(0).load(std::memory_order_acquire));
      if (level == 0) return n;
    }
  }

  // The key's node that is not removed; unlinks removed ones on its way.
  Node* Find(std::string_view key, Place* at) {
    for (;;) {
      Node* before = head_;
      bool again = false;
      for (int level = kMostLevels - 1; level >= 0 && !again; --level) {
        const Link first = before->next(level).load(std::memory_order_acquire);
        again = (first & 1) != 0;  // `before` has been removed
        Node* n = NodeOf(first);
        while (!again && n != nullptr) {
          const Link next = n->next(level).load(std::memory_order_acquire);
          if ((next & 1) != 0) {
            Link expected = LinkTo(n);
            again = !before->next(level).compare_exchange_strong(expected, next & ~Link{1},
                                                                 std::memory_order_acq_rel);
            n = NodeOf(next);
            continue;
          }
          if (n->key() >= key) break;
          before = n;
          n = NodeOf(next);
        }
        at->before[level] = before;
        at->after[level] = n;
      }
      if (again) continue;
      Node* n = at->after[0];
      return n != nullptr && n->key() == key ? n : nullptr;
    }
  }

  Node* const head_;
};

}  // namespace crest
