// The global allocator of LLAMA: shards of huge pages, and the order in which a request looks at
// them. Its own shard's longer pages, open page and spare one come first, then longer pages of the
// other shards that were ever used, where those have a page's worth of free blocks together, and a
// fresh page only then, so that what one CPU leaves free another finds, and CPUs do not meet over
// little. With one shard this is the paper's allocator; and each has an open page for each rung, so
// all threads use the first one until they have met at its lock a few times. Deadlines are looked
// at here, by whoever comes for blocks, so no thread is needed for them.
// Maas et al., CACM 67(4), 2024, section 3; what replaces its lock is ours. Sits in lifetime.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lifetime/page_shard.h"

namespace strata {

template <class Source, class Clock, size_t kShards, SparePage kSpare>
class BlockHeap {
 public:
  using Supply = HugePageSupply<Source, Clock>;
  using Shard = PageShard<Supply, kSpare>;

  constexpr BlockHeap(Source& source, MetadataArena::MapFunction map) : supply_(source, map) {}

  // Bytes of an object, at least a block's worth; align in bytes. 0: out of memory.
  uintptr_t TakeObject(size_t bytes, size_t align, Rung rung, size_t home) {
    const size_t blocks = (bytes + kBlockSize - 1) >> kBlockShift;
    return Take({blocks, align > kBlockSize ? align >> kBlockShift : 1, rung, BlockUse::kObject},
                home);
  }
  // Open, with all its lines free; null: out of memory.
  LineSpan* TakeSpan(Rung rung, size_t home) {
    const uintptr_t base = Take({kSpanBlocks, kSpanBlocks, rung, BlockUse::kSpan}, home);
    if (base == 0) return nullptr;
    LineSpan* span = LineSpan::Begin(base);  // not with a lock held: this touches fresh memory
    supply_.PageOf(base)->SetSpan(SpanOf(base));
    return span;
  }
  // Open, with some lines free; null: there is none.
  LineSpan* TakeReusable(Rung rung, size_t home) {
    ExpireAll(supply_.NowNs());
    home = ShardFor(home);
    const size_t used = used_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < used; ++i) {
      if (LineSpan* span = shards_[(home + i) % used].TakeReusable(rung)) {
        span->ForgetFreed();
        return span;
      }
    }
    return nullptr;
  }

  HugeBlockPage* PageOf(uintptr_t p) const { return supply_.PageOf(p); }
  static bool IsInSpan(const HugeBlockPage& page, uintptr_t p) { return page.IsSpan(SpanOf(p)); }

  // Of the object of whole blocks that begins at p on this page; false or 0: none does.
  bool FreeObject(HugeBlockPage* page, uintptr_t p) {
    return ShardOf(*page).FreeObject(page, p, supply_);
  }
  size_t ObjectBytes(HugeBlockPage* page, uintptr_t p) {
    return ShardOf(*page).ObjectBytes(page, p);
  }
  // Nothing lives in it.
  void GiveSpan(uintptr_t base) {
    HugeBlockPage* page = supply_.PageOf(base);
    ShardOf(*page).GiveSpan(*page, base, supply_);
  }

  // Moves pages whose deadline has passed.
  void ExpireAll(uint64_t now) {
    const size_t used = used_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < used; ++i) {
      if (shards_[i].Due(now)) shards_[i].Expire(now);
    }
  }

  LifetimeStats stats() {
    LifetimeStats sum;
    for (Shard& shard : shards_) sum.Add(shard.stats());
    return sum;
  }
  Supply& supply() { return supply_; }
  template <class F>
  void VisitLocks(F f) {
    for (Shard& shard : shards_) f(shard.lock());
    f(supply_.arena().lock());
  }

 private:
  static size_t SpanOf(uintptr_t p) { return (p & (kHugePageSize - 1)) / kSpanSize; }
  static Shard& ShardOf(HugeBlockPage& page) { return *static_cast<Shard*>(page.shard); }

  uintptr_t Take(const BlockRequest& r, size_t home) {
    home = ShardFor(home);
    NoteUsed(home);
    ExpireAll(supply_.NowNs());
    const size_t used = used_.load(std::memory_order_relaxed);
    uintptr_t p = shards_[home].TakeRecycled(r);
    if (p == 0) p = shards_[home].TakeOpen(r, supply_, used > 1 ? Fresh::kNone : Fresh::kAsNeeded);
    if (p != 0 || used == 1) return p;
    p = TakeOfOthers(r, home, used);
    return p != 0 ? p : shards_[home].TakeOpen(r, supply_, Fresh::kAsNeeded);
  }
  // Only where their free blocks add up to the page that would else be fetched. So beside one that
  // is fetched lie less than 2 MiB of them, however many shards there are; but for runs that are
  // too short, and shards in use just then.
  uintptr_t TakeOfOthers(const BlockRequest& r, size_t home, size_t used) {
    size_t gaps = 0;
    for (size_t i = 0; i < used; ++i) {
      if (i != home) gaps += shards_[i].GapsAbove(r.rung);
    }
    uintptr_t p = 0;
    for (size_t i = 0; p == 0 && gaps >= kBlocksPerPage && i < used; ++i) {
      if (i != home) p = shards_[i].TryTakeRecycled(r);
    }
    return p;
  }

  size_t ShardFor(size_t home) const { return shards_[0].WasMetAt() ? home % kShards : 0; }

  void NoteUsed(size_t home) {
    size_t used = used_.load(std::memory_order_relaxed);
    if (used <= home && home > 0) supply_.Share();
    while (used <= home &&
           !used_.compare_exchange_weak(used, home + 1, std::memory_order_relaxed)) {
    }
  }

  Supply supply_;
  std::atomic<size_t> used_{0};  // shards from the first on that were ever somebody's
  Shard shards_[kShards];
};

}  // namespace strata
