// A lock-free hash table: each bucket a sorted list after Harris (DISC 2001), searched as by
// Michael (SPAA 2002). A key is there while its slot holds a value, so that writes and removals of
// one key meet at the slot: it is emptied once and never filled again; then the node is marked and
// unlinked by whoever passes.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>

#include "index/hash.h"
#include "values/value_view.h"

namespace crest {

template <class Values>
class HarrisTable {
  using Scope = typename Values::Scope;

 public:
  static constexpr bool ordered = false;

  HarrisTable(Values&, size_t expected_keys)
      : mask_(BucketsFor(expected_keys) - 1),
        buckets_(std::make_unique<std::atomic<Link>[]>(mask_ + 1)) {}
  ~HarrisTable() {
    for (size_t i = 0; i <= mask_; ++i) {
      for (Node* n = NodeOf(buckets_[i].load()); n != nullptr;) {
        Node* next = NodeOf(n->next.load());
        Destroy(n);
        n = next;
      }
    }
  }

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    const uint64_t hash = HashOf(key);
    for (Node* n = NodeOf(Bucket(hash).load(std::memory_order_acquire)); n != nullptr;
         n = NodeOf(n->next.load(std::memory_order_acquire))) {
      const int order = n->Compare(hash, key);
      if (order < 0) continue;
      if (order > 0) return false;
      const ValueView v = n->slot.Get(scope);
      if (v.data != nullptr) f(v);
      return v.data != nullptr;
    }
    return false;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    const uint64_t hash = HashOf(key);
    Node* fresh = nullptr;
    for (;;) {
      const Place at = Find(scope, hash, key);
      if (at.found) {
        const Replaced done = at.node->slot.Replace(scope, value);
        if (done == Replaced::kWasEmpty) {  // being removed: help, then there is room for a new one
          Mark(at.node);
          continue;
        }
        if (fresh != nullptr) Destroy(fresh);
        return done == Replaced::kYes;
      }
      if (fresh == nullptr && !(fresh = Make(scope, hash, key, value))) return false;
      fresh->next.store(LinkTo(at.node), std::memory_order_relaxed);
      Link expected = LinkTo(at.node);
      if (at.before->compare_exchange_strong(expected, LinkTo(fresh), std::memory_order_acq_rel))
        return true;
    }
  }

  bool Remove(Scope& scope, std::string_view key) {
    const uint64_t hash = HashOf(key);
    const Place at = Find(scope, hash, key);
    if (!at.found || !at.node->slot.Clear(scope)) return false;
    Mark(at.node);
    Find(scope, hash, key);  // unlinks it
    return true;
  }

  template <class F>
  void ForEach(F&& f) {
    for (size_t i = 0; i <= mask_; ++i) {
      for (Node* n = NodeOf(buckets_[i].load()); n != nullptr; n = NodeOf(n->next.load()))
        f(n->key(), n->slot);
    }
  }

 private:
  // The address of the next node; bit 0: the node that holds this link is removed.
  using Link = uintptr_t;

  struct Node {
    std::atomic<Link> next{0};
    const uint64_t hash;
    typename Values::Slot slot;
    const uint8_t size;

    Node(uint64_t h, std::string_view key) : hash(h), size(static_cast<uint8_t>(key.size())) {
      std::memcpy(reinterpret_cast<char*>(this + 1), key.data(), key.size());
    }
    std::string_view key() const { return {reinterpret_cast<const char*>(this + 1), size}; }
    int Compare(uint64_t h, std::string_view k) const {
      if (hash != h) return hash < h ? -1 : 1;
      return key().compare(k);
    }
  };
  struct Place {
    std::atomic<Link>* before;
    Node* node;  // the first that is not less
    bool found;
  };

  static Node* NodeOf(Link link) { return reinterpret_cast<Node*>(link & ~Link{1}); }
  static Link LinkTo(Node* n) { return reinterpret_cast<Link>(n); }
  static void Mark(Node* n) { n->next.fetch_or(1, std::memory_order_acq_rel); }
  static void Destroy(void* node) {
    static_cast<Node*>(node)->~Node();
    std::free(node);
  }
  static Node* Make(Scope& scope, uint64_t hash, std::string_view key, std::string_view value) {
    void* memory = std::malloc(sizeof(Node) + key.size());
    if (memory == nullptr) return nullptr;
    auto* n = ::new (memory) Node(hash, key);
    if (n->slot.Set(scope, value)) return n;
    Destroy(n);
    return nullptr;
  }

  std::atomic<Link>& Bucket(uint64_t hash) { return buckets_[hash >> 8 & mask_]; }

  // Unlinks what is removed on its way.
  Place Find(Scope& scope, uint64_t hash, std::string_view key) {
    for (;;) {
      std::atomic<Link>* before = &Bucket(hash);
      Node* n = NodeOf(before->load(std::memory_order_acquire));
      bool again = false;
      while (n != nullptr && !again) {
        const Link next = n->next.load(std::memory_order_acquire);
        if ((next & 1) != 0) {
          Link expected = LinkTo(n);
          again = !before->compare_exchange_strong(expected, next & ~Link{1},
                                                   std::memory_order_acq_rel);
          if (!again) scope.Retire(n, &Destroy);
          n = NodeOf(next);
          continue;
        }
        const int order = n->Compare(hash, key);
        if (order >= 0) return {before, n, order == 0};
        before = &n->next;
        n = NodeOf(next);
      }
      if (!again) return {before, nullptr, false};
    }
  }

  const size_t mask_;
  std::unique_ptr<std::atomic<Link>[]> buckets_;
};

}  // namespace crest
