// A hash table with fine-grained read/write locks, one a bucket, after Pugh's lists with local
// locks (CS-TR-2222, University of Maryland, 1990).
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "index/hash.h"
#include "index/read_write_lock.h"
#include "index/record.h"
#include "values/value_view.h"

namespace crest {

template <class Values>
class PughTable {
  using Scope = typename Values::Scope;
  using Entry = Record<Values>;

 public:
  static constexpr bool ordered = false;

  PughTable(Values&, size_t expected_keys)
      : mask_(BucketsFor(expected_keys) - 1), buckets_(std::make_unique<Bucket[]>(mask_ + 1)) {}
  ~PughTable() {
    for (size_t i = 0; i <= mask_; ++i) {
      for (Node* n = buckets_[i].first; n != nullptr;) {
        Node* next = n->next;
        Entry::Destroy(n->entry);
        delete n;
        n = next;
      }
    }
  }

  template <class F>
  bool Get(Scope& scope, std::string_view key, F&& f) {
    const uint64_t hash = HashOf(key);
    Bucket& bucket = BucketOf(hash);
    bucket.lock.LockShared();
    Node* n = *Find(bucket, hash, key);
    const ValueView v = n == nullptr ? ValueView{} : n->entry->slot.Get(scope);
    bucket.lock.UnlockShared();
    if (v.data != nullptr) f(v);
    return v.data != nullptr;
  }

  bool Put(Scope& scope, std::string_view key, std::string_view value) {
    const uint64_t hash = HashOf(key);
    Bucket& bucket = BucketOf(hash);
    const WriteHolder hold(bucket.lock);
    Node** at = Find(bucket, hash, key);
    if (*at != nullptr) return (*at)->entry->slot.Set(scope, value);
    Entry* entry = Entry::Make(key);
    if (entry == nullptr) return false;
    auto* n = new (std::nothrow) Node{nullptr, hash, entry};
    if (n == nullptr || !entry->slot.Set(scope, value)) {
      delete n;
      Entry::Destroy(entry);
      return false;
    }
    *at = n;
    return true;
  }

  bool Remove(Scope& scope, std::string_view key) {
    const uint64_t hash = HashOf(key);
    Bucket& bucket = BucketOf(hash);
    const WriteHolder hold(bucket.lock);
    Node** at = Find(bucket, hash, key);
    Node* n = *at;
    if (n == nullptr) return false;
    *at = n->next;
    n->entry->slot.Clear(scope);
    Entry::Destroy(n->entry);  // readers of it held the lock, but for the value
    delete n;
    return true;
  }

  template <class F>
  void ForEach(F&& f) {
    for (size_t i = 0; i <= mask_; ++i) {
      for (Node* n = buckets_[i].first; n != nullptr; n = n->next)
        f(n->entry->key(), n->entry->slot);
    }
  }

 private:
  struct Node {
    Node* next;
    uint64_t hash;
    Entry* entry;
  };
  struct Bucket {
    ReadWriteLock lock;
    Node* first = nullptr;
  };
  class WriteHolder {
   public:
    explicit WriteHolder(ReadWriteLock& lock) : lock_(lock) { lock_.Lock(); }
    ~WriteHolder() { lock_.Unlock(); }
    WriteHolder(const WriteHolder&) = delete;
    WriteHolder& operator=(const WriteHolder&) = delete;

   private:
    ReadWriteLock& lock_;
  };

  Bucket& BucketOf(uint64_t hash) { return buckets_[hash >> 8 & mask_]; }
  // The link to the key's node, or the last one. Under the bucket's lock.
  static Node** Find(Bucket& bucket, uint64_t hash, std::string_view key) {
    Node** at = &bucket.first;
    while (*at != nullptr && ((*at)->hash != hash || (*at)->entry->key() != key)) at = &(*at)->next;
    return at;
  }

  const size_t mask_;
  std::unique_ptr<Bucket[]> buckets_;
};

}  // namespace crest
