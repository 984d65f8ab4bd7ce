// Hoard's spares: runs of one length that are not given back below yet, such as empty superblocks,
// of no class, up to kMost for each processor. A processor gets its own again, whose lines its
// cache may still have, and another one's before more memory is asked for. The locks come after
// those of bins and the global heap's shards.
#pragma once

#include "strata/layers/combine/free_list.h"
#include "strata/layers/detail/shard_search.h"
#include "strata/layers/detail/sync.h"

namespace strata::layers {

// With kFew runs or more from below, it says when another would be more than there ever were; 0: it
// does not count them.
template <class Below, size_t kMost, size_t kHeaps, class Sync, size_t kFew = 0>
class HoardSpares {
 public:
  constexpr HoardSpares() {}
  // Before the first use: where runs of so many bytes come from.
  constexpr void Begin(Below& below, size_t heaps, size_t bytes) {
    below_ = &below;
    heaps_ = heaps;
    bytes_ = bytes;
  }
  ~HoardSpares() {
    for (Shard& shard : shards_) {
      while (!shard.runs.empty()) below_->deallocate(shard.runs.Pop(), bytes_);
    }
  }
  HoardSpares(const HoardSpares&) = delete;
  HoardSpares& operator=(const HoardSpares&) = delete;

  // A run for processor `home`, from below if there is no spare; null: memory is out.
  void* Take(size_t home) {
    void* spare = TakeSpare(home);
    return spare != nullptr ? spare : TakeNew();
  }
  // Null: there was a moment without any.
  void* TakeSpare(size_t home) {
    if constexpr (kMost == 0) return nullptr;
    return SearchShards(arrivals_, heaps_, home, [this](size_t at) { return TryOne(at); });
  }
  void* TakeNew() {
    void* run = below_->allocate(bytes_);
    if constexpr (kFew > 0) {
      if (run != nullptr) {
        const size_t out = out_.fetch_add(1) + 1;
        if (out > most_.load()) most_.store(out);
      }
    }
    return run;
  }
  void Put(void* run, size_t home) {
    if (kMost != 0 && Keep(shards_[home], run)) return;
    if constexpr (kFew > 0) out_.fetch_add(SIZE_MAX);  // one less
    below_->deallocate(run, bytes_);
  }
  // While others take and put some, about.
  bool at_most() const
    requires(kFew > 0)
  {
    const size_t out = out_.load();
    return out >= kFew && out >= most_.load();
  }

  size_t kept() const {
    size_t sum = 0;
    for (const Shard& shard : shards_) sum += shard.count;
    return sum;
  }
  template <class F>
  void visit_locks(F&& f) {
    for (Shard& shard : shards_) f(shard.lock);
  }

 private:
  struct alignas(128) Shard {
    typename Sync::Lock lock;
    internal::BlockStack runs;
    size_t count = 0;
    // The same for those who have no lock.
    typename Sync::template Atomic<size_t> present{0};
  };

  void* TryOne(size_t at) {
    Shard& shard = shards_[at];
    if (shard.present.load() == 0) return nullptr;
    Holding hold(shard.lock);
    if (shard.count == 0) return nullptr;
    shard.present.store(--shard.count);
    return shard.runs.Pop();
  }
  bool Keep(Shard& shard, void* run) {
    Holding hold(shard.lock);
    if (shard.count == kMost) return false;
    shard.runs.Push(run);
    shard.present.store(++shard.count);
    arrivals_.fetch_add(1);  // not before `present`, and under the lock: shard_search.h
    return true;
  }

  Below* below_ = nullptr;
  size_t heaps_ = 0;
  size_t bytes_ = 0;  // of a run
  Shard shards_[kHeaps];
  alignas(128) typename Sync::template Atomic<size_t> arrivals_{0};
  typename Sync::template Atomic<size_t> out_{0};  // runs from below
  typename Sync::template Atomic<size_t> most_{0};
};

}  // namespace strata::layers
