// A hash table in segments, after Java's ConcurrentHashMap as D. Lea wrote it for Java 5: writers
// lock a segment, readers nothing; a segment that grows gets a new array with new links to the same
// records, so readers of the old one are not disturbed.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>

#include "index/hash.h"
#include "index/record.h"
#include "values/value_view.h"

namespace crest {

template <class Values>
class ChmTable {
  using Scope = typename Values::Scope;
  using Entry = Record<Values>;

 public:
  static constexpr bool ordered = false;

  ChmTable(Values&, size_t expected_keys) {
    for (Segment& s : segments_) {
      s.table.store(Table::Make(BucketsFor(expected_keys / kSegments / 8)));
      if (s.table.load() == nullptr) throw std::bad_alloc();
    }
  }
  ~ChmTable() {
    for (Segment& s : segments_) {
      Table* t = s.table.load();
      t->ForEachNode([](Node* n) {
        Entry::Destroy(n->entry);
        delete n;
      });
      Table::Destroy(t);
    }
  }

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    const uint64_t hash = HashOf(key);
    Table* t = SegmentOf(hash).table.load(std::memory_order_acquire);
    Node* n = t->Bucket(hash).load(std::memory_order_acquire);
    while (n != nullptr && !n->Is(hash, key)) n = n->next.load(std::memory_order_acquire);
    if (n == nullptr) return false;
    const ValueView v = n->entry->slot.Get(scope);
    if (v.data != nullptr) f(v);
    return v.data != nullptr;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    const uint64_t hash = HashOf(key);
    Segment& s = SegmentOf(hash);
    const std::lock_guard hold(s.lock);
    if (Node* n = Find(s, hash, key)->load(std::memory_order_relaxed))
      return n->entry->slot.Set(scope, value);
    Entry* entry = Entry::Make(key);
    if (entry == nullptr) return false;
    auto* n = new (std::nothrow) Node(hash, entry);
    if (n == nullptr || !entry->slot.Set(scope, value)) {
      delete n;
      Entry::Destroy(entry);
      return false;
    }
    if (s.count >= s.table.load(std::memory_order_relaxed)->size) Grow(scope, s);
    std::atomic<Node*>& first = s.table.load(std::memory_order_relaxed)->Bucket(hash);
    n->next.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first.store(n, std::memory_order_release);
    ++s.count;
    return true;
  }

  bool Remove(Scope& scope, std::string_view key) {
    const uint64_t hash = HashOf(key);
    Segment& s = SegmentOf(hash);
    const std::lock_guard hold(s.lock);
    std::atomic<Node*>* at = Find(s, hash, key);
    Node* n = at->load(std::memory_order_relaxed);
    if (n == nullptr) return false;
    n->entry->slot.Clear(scope);
    at->store(n->next.load(std::memory_order_relaxed), std::memory_order_release);
    --s.count;
    scope.Retire(n->entry, [](void* p) { Entry::Destroy(static_cast<Entry*>(p)); });
    scope.Retire(n, [](void* p) { delete static_cast<Node*>(p); });
    return true;
  }

  template <class F>
  void ForEach(F&& f) {
    for (Segment& s : segments_)
      s.table.load()->ForEachNode([&](Node* n) { f(n->entry->key(), n->entry->slot); });
  }

 private:
  static constexpr size_t kSegments = 64;

  struct Node {
    Node(uint64_t h, Entry* e) : hash(h), entry(e) {}
    bool Is(uint64_t h, std::string_view key) const { return hash == h && entry->key() == key; }

    std::atomic<Node*> next{nullptr};
    const uint64_t hash;
    Entry* const entry;
  };
  struct Table {
    size_t size;
    std::atomic<Node*>* buckets;

    static Table* Make(size_t size) {
      auto* t = new (std::nothrow) Table{size, new (std::nothrow) std::atomic<Node*>[size] {}};
      if (t != nullptr && t->buckets != nullptr) return t;
      delete t;
      return nullptr;
    }
    static void Destroy(Table* t) {
      delete[] t->buckets;
      delete t;
    }
    std::atomic<Node*>& Bucket(uint64_t hash) { return buckets[hash >> 8 & (size - 1)]; }
    template <class F>
    void ForEachNode(F f) {
      for (size_t i = 0; i < size; ++i) {
        for (Node* n = buckets[i].load(); n != nullptr;) {
          Node* next = n->next.load();
          f(n);
          n = next;
        }
      }
    }
  };
  struct alignas(64) Segment {
    std::mutex lock;
    size_t count = 0;  // under the lock
    std::atomic<Table*> table{nullptr};
  };

  Segment& SegmentOf(uint64_t hash) { return segments_[hash >> 58]; }
  // Under the segment's lock.
  static std::atomic<Node*>* Find(Segment& s, uint64_t hash, std::string_view key) {
    std::atomic<Node*>* at = &s.table.load(std::memory_order_relaxed)->Bucket(hash);
    for (Node* n; (n = at->load(std::memory_order_relaxed)) != nullptr && !n->Is(hash, key);)
      at = &n->next;
    return at;
  }

  // Twice as many buckets. Without memory for them the lists grow longer.
  static void Grow(Scope& scope, Segment& s) {
    Table* old = s.table.load(std::memory_order_relaxed);
    Table* grown = Table::Make(old->size * 2);
    if (grown == nullptr) return;
    bool whole = true;
    old->ForEachNode([&](Node* n) {
      auto* copy = whole ? new (std::nothrow) Node(n->hash, n->entry) : nullptr;
      if (!(whole = copy != nullptr)) return;
      std::atomic<Node*>& first = grown->Bucket(n->hash);
      copy->next.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
      first.store(copy, std::memory_order_relaxed);
    });
    if (!whole) {
      grown->ForEachNode([](Node* n) { delete n; });
      return Table::Destroy(grown);
    }
    s.table.store(grown, std::memory_order_release);
    old->ForEachNode(
        [&](Node* n) { scope.Retire(n, [](void* p) { delete static_cast<Node*>(p); }); });
    scope.Retire(old, [](void* p) { Table::Destroy(static_cast<Table*>(p)); });
  }

  std::array<Segment, kSegments> segments_;
};

}  // namespace crest
