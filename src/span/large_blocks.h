// Blocks above the largest size class, and such as are aligned to more than a page: each a run of
// its own. They come from the page heap under its lock. Once a CPU's threads had to wait for that
// lock too often, its blocks shorter than a hugepage come from hugepages lent to it, under a lock
// of its own (hugepage/lent_pages.h), until it rests. Sits in span; everything here is thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/placement.h"
#include "base/units.h"
#include "hugepage/lent_pages.h"
#include "hugepage/page_heap_stats.h"
#include "hugepage/page_run.h"
#include "span/page_map.h"
#include "span/span.h"

namespace strata {

struct LargeBlock {
  void* address = nullptr;
  bool zeroed = false;
};

// All that are live, and how many were taken and given back so far.
struct LargeBlockCounts {
  size_t blocks = 0;
  size_t requested = 0;  // bytes
  Pages pages;
  uint64_t moves = 0;
};

template <class PageHeap>
class LargeBlocks {
 public:
  // A number for the CPU that the thread runs on, or will in all likelihood.
  using CpuNumber = size_t (*)();

  LargeBlocks(PageHeap& heap, MetadataArena& arena, SpanPool& pool, CpuNumber cpu_number)
      : heap_(heap), arena_(arena), pool_(pool), cpu_number_(cpu_number), spans_(pool) {}
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  // A record with state, range and requested bytes set, not entered in the page map yet; null when
  // memory is short. The block begins with its first page.
  Span* Take(size_t size, Pages align, Placement placement, bool* zeroed) {
    const Pages n = size == 0 ? Pages(1) : PagesCeil(size);
    Slot& slot = SlotOfThisCpu();
    if (STRATA_UNLIKELY(slot.open.load(std::memory_order_relaxed)) && n < kPagesInHugePage &&
        align == Pages(1)) {
      if (Span* span = TakeLent(slot, size, {n, align, placement}, zeroed)) return span;
    }
    return TakeFromHeap(slot, size, {n, align, placement}, zeroed);
  }

  // The span is out of the page map.
  void Give(Span* span) {
    InPlaceOf(span, &SlotOfThisCpu(), [&](auto& place) {
      const PageRange range = span->range();
      place.counts.Given(span->requested, range.length);
      place.spans.Delete(span);
      if (!range.empty()) place.pages.Give(range);
    });
    heap_.ReleaseDue();
  }

  // Moves the start of a block that is out of the page map into another without copying, as much as
  // the page heap can; the rest stays, perhaps nothing. Returns the bytes moved.
  size_t Move(Span* from, const Span* to) {
    if (from->lent_to != 0 || to->lent_to != 0) return 0;  // shorter than a hugepage, once
    LockHolder hold(heap_.lock());
    const Pages moved = heap_.MoveHolding(from->range(), to->range());
    from->first_page += static_cast<uint32_t>(moved.raw());
    from->num_pages -= static_cast<uint32_t>(moved.raw());
    counts_.pages -= moved.raw();
    return BytesOf(moved);
  }

  // Makes the block hold `size` bytes where it lies; false if it can't.
  bool Resize(Span* span, size_t size) {
    const Pages n = PagesCeil(size + span->shift);
    const bool done = InPlaceOf(span, nullptr, [&](auto& place) {
      const PageRange range = span->range();
      if (n > range.length && !place.pages.TryGrow(range, n)) return false;
      if (n < range.length) place.pages.Shrink(range, n);
      span->num_pages = static_cast<uint32_t>(n.raw());
      place.counts.pages += n.raw() - range.length.raw();
      NoteRequested(place.counts, span, size);
      return true;
    });
    heap_.ReleaseDue();
    return done;
  }

  // What the program asked for; it may want more or less of what the block has.
  void SetRequested(Span* span, size_t size) {
    InPlaceOf(span, nullptr, [&](auto& place) { NoteRequested(place.counts, span, size); });
  }
  size_t RequestedOf(const Span* span) const {
    return InPlaceOf(span, nullptr, [&](auto&) { return span->requested; });
  }
  // Of a block that another thread may be resizing.
  PageRange RangeOf(const Span* span) const {
    return InPlaceOf(span, nullptr, [&](auto&) { return span->range(); });
  }

  // All locks at once: a block may be taken in one place and given in another.
  LargeBlockCounts counts() const STRATA_NO_TSA {
    for (const Slot& s : slots_) s.lock.Acquire();
    heap_.lock().Acquire();
    Sums sum = counts_;
    for (const Slot& s : slots_) sum.Add(s.counts);
    heap_.lock().Release();
    for (const Slot& s : slots_) s.lock.Release();
    return {sum.blocks, sum.requested, Pages(sum.pages), sum.moves};
  }

  // Hugepages that are lent now.
  size_t lent() const {
    size_t sum = 0;
    for (const Slot& s : slots_) {
      LockHolder hold(s.lock);
      if (s.pages != nullptr) sum += s.pages->hugepages();
    }
    return sum;
  }

  // The page heap's figures, where lent hugepages count by what lies in them.
  PageHeapStats PageStats() const {
    PageHeapStats stats = heap_.Stats();
    for (const Slot& s : slots_) {
      LockHolder hold(s.lock);
      if (s.pages != nullptr) AddLent(*s.pages, stats);
    }
    return stats;
  }

  // The same of one hugepage.
  HugePageFill FillOf(HugePageId p) const {
    while (const uint8_t to = heap_.LentTo(p)) {
      LockHolder hold(slots_[to - 1u].lock);
      if (heap_.LentTo(p) != to) continue;  // returned meanwhile
      const HugeTracker* t = heap_.LentTracker(FirstPage(p));
      return {t->used(), t->free_backed()};
    }
    return heap_.FillOf(p);
  }

  // Lent hugepages go back, with what lies in them. CPUs that contend go on borrowing.
  void ReturnAll() {
    for (Slot& s : slots_) Return(s);
  }

  // About once a second: CPUs that took few blocks since need no hugepages of their own.
  void Tick() {
    for (Slot& s : slots_) {
      const bool was_just_opened = s.just_opened.exchange(false, std::memory_order_relaxed);
      bool rests;
      {
        LockHolder hold(s.lock);
        rests = s.takes < kRestingTakes && !was_just_opened;
        s.takes = 0;
        if (rests) s.open.store(false, std::memory_order_relaxed);
      }
      if (rests) Return(s);
    }
    LockHolder hold(heap_.lock());
    for (size_t& n : waits_) n = 0;
  }

  // The page heap's own is not among them; it comes after.
  template <class F>
  void VisitLocks(F f) {
    for (Slot& s : slots_) f(s.lock);
  }

 private:
  static constexpr size_t kSlots = 16;
  // Waits for the page heap's lock within a second after which a CPU may borrow, and blocks taken
  // in a second below which it rests. Neither number is critical: CPUs that contend do both many
  // thousand times a second.
  static constexpr size_t kWaitsToOpen = 64;
  static constexpr uint64_t kRestingTakes = 256;
  static constexpr size_t kReturnBatch = 64;  // hugepages returned while the locks are held

  // What was taken less what was given in one place: that of blocks which changed places is below
  // zero in one and too much in the other, and right in the sum of all, as unsigned numbers wrap.
  struct Sums {
    size_t blocks = 0, requested = 0, pages = 0;
    uint64_t moves = 0;

    void Taken(size_t size, Pages length) {
      ++blocks;
      ++moves;
      requested += size;
      pages += length.raw();
    }
    void Given(size_t size, Pages length) {
      --blocks;
      ++moves;
      requested -= size;
      pages -= length.raw();
    }
    void Add(const Sums& o) {
      blocks += o.blocks;
      requested += o.requested;
      pages += o.pages;
      moves += o.moves;
    }
  };

  // One CPU's, or that of several with numbers 16 apart. A cache line of its own, at least.
  struct alignas(64) Slot {
    mutable Lock lock{LockRank::kLentPages};
    std::atomic<bool> open{false};         // hugepages may be lent; closed under the lock
    std::atomic<bool> just_opened{false};  // since the last tick
    uint64_t takes = 0;                    // since the last tick
    Sums counts;
    LentPages<PageHeap>* pages = nullptr;  // made when first needed, kept
    SpanCache* spans = nullptr;            // the same
  };

  // What a block's owner has, for InPlaceOf's callers, who hold its lock.
  struct HeapPages {
    PageHeap& heap;
    void Give(PageRange r) STRATA_NO_TSA { heap.GiveHolding(r); }
    bool TryGrow(PageRange r, Pages n) STRATA_NO_TSA { return heap.TryGrowHolding(r, n); }
    void Shrink(PageRange r, Pages n) STRATA_NO_TSA { heap.ShrinkHolding(r, n); }
  };
  template <class Heap>
  struct Place {
    Sums& counts;
    SpanCache& spans;
    Heap& pages;
  };

  Slot& SlotOfThisCpu() const { return slots_[cpu_number_() % kSlots]; }

  // Calls f with the lock held that guards the block. A waiter for the page heap's is counted in
  // `waiter`, if there is one.
  template <class F>
  auto InPlaceOf(const Span* span, Slot* waiter, F f) const STRATA_NO_TSA {
    if (STRATA_UNLIKELY(span->lent_to != 0)) {
      Slot& s = slots_[span->lent_to - 1u];
      LockHolder hold(s.lock);
      // One that was returned stays the page heap's as long as there is anything in it.
      if (heap_.IsLent(PageId(span->first_page))) {
        Place<LentPages<PageHeap>> place{s.counts, *s.spans, *s.pages};
        return f(place);
      }
    }
    const HeapLock hold(*this, waiter);
    HeapPages pages{heap_};
    Place<HeapPages> place{counts_, spans_, pages};
    return f(place);
  }

  // The page heap's lock; that it had to be waited for is noted in the slot.
  class STRATA_SCOPED_CAPABILITY HeapLock {
   public:
    HeapLock(const LargeBlocks& blocks, Slot* waiter) STRATA_ACQUIRE(blocks.heap_.lock())
        : lock_(blocks.heap_.lock()) {
      Acquire(blocks, waiter);
    }
    ~HeapLock() STRATA_RELEASE() { lock_.Release(); }
    HeapLock(const HeapLock&) = delete;
    HeapLock& operator=(const HeapLock&) = delete;

   private:
    void Acquire(const LargeBlocks& blocks, Slot* waiter) STRATA_NO_TSA {
      if (STRATA_LIKELY(lock_.TryAcquire())) return;
      lock_.Acquire();
      if (waiter == nullptr) return;
      if (++blocks.waits_[static_cast<size_t>(waiter - blocks.slots_)] != kWaitsToOpen) return;
      waiter->just_opened.store(true, std::memory_order_relaxed);
      waiter->open.store(true, std::memory_order_relaxed);
    }
    Lock& lock_;
  };

  Span* TakeFromHeap(Slot& slot, size_t size, const PageRequest& r, bool* zeroed) {
    const HeapLock hold(*this, &slot);
    Span* span = spans_.New();
    if (span == nullptr) return nullptr;
    const PageRun run = heap_.TakeHolding(r);
    if (run.range.empty()) {
      spans_.Delete(span);
      return nullptr;
    }
    counts_.Taken(size, run.range.length);
    *zeroed = run.zeroed;
    return Fill(span, run.range, size);
  }

  // The slot's lock is not held while the page heap is asked for a hugepage: that may look at the
  // soft limit and release memory.
  Span* TakeLent(Slot& slot, size_t size, const PageRequest& r, bool* zeroed) {
    const auto number = static_cast<uint8_t>(&slot - slots_ + 1);
    HugeTracker* fresh = nullptr;
    for (;;) {
      {
        LockHolder hold(slot.lock);
        const bool ready = slot.open.load(std::memory_order_relaxed) && MakePages(slot);
        if (fresh != nullptr) slot.pages->Add(fresh);  // if the slot was closed, a tick returns it
        Span* span = ready ? slot.spans->New() : nullptr;
        if (span == nullptr) return nullptr;
        const PageRun run = slot.pages->TryTake(r);
        if (!run.range.empty()) {
          ++slot.takes;
          slot.counts.Taken(size, run.range.length);
          span->lent_to = number;
          *zeroed = run.zeroed;
          return Fill(span, run.range, size);
        }
        slot.spans->Delete(span);
      }
      fresh = heap_.Lend(number);
      if (fresh == nullptr) return nullptr;
    }
  }

  static Span* Fill(Span* span, PageRange range, size_t size) {
    span->state = SpanState::kLarge;
    span->first_page = static_cast<uint32_t>(range.first.raw());
    span->num_pages = static_cast<uint32_t>(range.length.raw());
    span->requested = size;
    span->shift = 0;
    return span;
  }

  static void NoteRequested(Sums& counts, Span* span, size_t size) {
    counts.requested += size - span->requested;  // unsigned: comes out right when it wraps
    span->requested = size;
  }

  bool MakePages(Slot& s) {
    using Lent = LentPages<PageHeap>;
    if (s.spans == nullptr) {
      void* spans = arena_.Allocate(sizeof(SpanCache), alignof(SpanCache));
      if (spans != nullptr) s.spans = ::new (spans) SpanCache(pool_);
    }
    if (s.pages == nullptr) {
      void* pages = arena_.Allocate(sizeof(Lent), alignof(Lent));
      if (pages != nullptr) s.pages = ::new (pages) Lent(heap_, arena_);
    }
    return s.spans != nullptr && s.pages != nullptr && s.pages->Prepare();
  }

  void Return(Slot& s) {
    size_t most = SIZE_MAX;  // of what the slot had at first: others may go on borrowing
    for (size_t returned = 0; returned < most; returned += kReturnBatch) {
      LockHolder hold(s.lock);
      if (s.pages == nullptr) return;
      if (returned == 0) most = s.pages->hugepages();
      if (!s.pages->ReturnSome(kReturnBatch)) return;
    }
  }

  // The page heap counted all of a lent hugepage as used.
  static void AddLent(const LentPages<PageHeap>& pages, PageHeapStats& s) {
    const HugeFiller& filler = pages.filler();
    const size_t free = BytesOf(filler.free_backed()) + pages.spare() * kHugePageSize;
    s.filler.hugepages += filler.hugepages();
    s.filler.used += BytesOf(filler.used());
    s.filler.free += BytesOf(filler.free_backed());
    s.filler.untouched += BytesOf(filler.untouched());
    s.filler.regular += filler.hugepages();
    s.filler.sparse += filler.hugepages();
    s.cache.hugepages += pages.spare();
    s.used -= std::min(s.used, free);  // what was lent since the heap was asked is not in it
    s.free_backed += free;
  }

  PageHeap& heap_;
  MetadataArena& arena_;
  SpanPool& pool_;
  const CpuNumber cpu_number_;
  mutable SpanCache spans_ STRATA_GUARDED_BY(heap_.lock());
  mutable Sums counts_ STRATA_GUARDED_BY(heap_.lock());                // of blocks in no slot
  mutable size_t waits_[kSlots] STRATA_GUARDED_BY(heap_.lock()) = {};  // since the last tick
  mutable Slot slots_[kSlots];
};

}  // namespace strata
