// Blocks above the largest size class, and such as are aligned to more than a page: each a run of
// its own. They come from the page heap under its lock. Once a CPU's threads had to wait for that
// lock too often, its blocks shorter than a hugepage come from hugepages lent to it, under a lock
// of its own (hugepage/lent_pages.h), until it rests. Sits in span; everything here is thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/units.h"
#include "hugepage/lent_pages.h"
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
  size_t asked = 0;  // bytes
  Length pages;
  uint64_t moves = 0;

  void Taken(size_t size, Length length) {
    ++blocks;
    ++moves;
    asked += size;
    pages += length;
  }
  void Given(size_t size, Length length) {
    --blocks;
    ++moves;
    asked -= size;
    pages -= length;
  }
  void Add(const LargeBlockCounts& o) {
    blocks += o.blocks;
    asked += o.asked;
    pages += o.pages;
    moves += o.moves;
  }
};

template <class PageHeap>
class LargeBlocks {
 public:
  // A number for the CPU that the thread runs on, or will in all likelihood.
  using CpuNumber = size_t (*)();

  LargeBlocks(PageHeap& heap, MetadataArena& arena, CpuNumber cpu_number)
      : heap_(heap), arena_(arena), cpu_number_(cpu_number), spans_(arena) {}
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  // A record with state, range and asked bytes set, not entered in the page map yet; null when
  // memory is short.
  Span* Take(size_t size, Length align, bool* zeroed) {
    const Length n = size == 0 ? Length(1) : PagesCeil(size);
    Slot& slot = SlotOfThisCpu();
    if (STRATA_UNLIKELY(slot.open.load(std::memory_order_relaxed)) && n < kPagesInHugePage &&
        align == Length(1)) {
      if (Span* span = TakeLent(slot, size, n, zeroed)) return span;
    }
    return TakeFromHeap(slot, size, {n, align, false}, zeroed);
  }

  // The span is out of the page map.
  void Give(Span* span) {
    const bool of_slot = span->lent_to != 0;
    Slot& slot = slots_[of_slot ? span->lent_to - 1u : 0];
    const bool elsewhere = InPlaceOf(span, &SlotOfThisCpu(), [&](auto& place) {
      const PageRange range = span->range();
      const bool from_here = place.kLent == of_slot;
      place.counts.Given(span->released_or_asked, range.length);
      if (from_here) place.spans.Delete(span);
      place.pages.Give(range);
      return !from_here;
    });
    if (!elsewhere) return;
    // Its hugepage was returned; its record goes back to where the slot takes the next one from.
    LockHolder hold(slot.lock);
    slot.spans->Delete(span);
  }

  // Makes the block hold `size` bytes where it lies; false if it can't.
  bool Resize(Span* span, size_t size) {
    const Length n = PagesCeil(size);
    return InPlaceOf(span, nullptr, [&](auto& place) {
      const PageRange range = span->range();
      if (n > range.length && !place.pages.TryGrow(range, n)) return false;
      if (n < range.length) place.pages.Shrink(range, n);
      span->num_pages = static_cast<uint32_t>(n.raw());
      place.counts.pages = place.counts.pages + n - range.length;
      NoteAsked(place.counts, span, size);
      return true;
    });
  }

  // What the program asked for; it may want more or less of what the block has.
  void SetAsked(Span* span, size_t size) {
    InPlaceOf(span, nullptr, [&](auto& place) { NoteAsked(place.counts, span, size); });
  }
  size_t AskedOf(const Span* span) const {
    return InPlaceOf(span, nullptr, [&](auto&) { return span->released_or_asked; });
  }
  // Of a block that another thread may be resizing.
  PageRange RangeOf(const Span* span) const {
    return InPlaceOf(span, nullptr, [&](auto&) { return span->range(); });
  }

  // All locks at once: a block may be taken in one place and given in another.
  LargeBlockCounts counts() const STRATA_NO_TSA {
    for (const Slot& s : slots_) s.lock.Acquire();
    heap_.lock().Acquire();
    LargeBlockCounts sum = counts_;
    for (const Slot& s : slots_) sum.Add(s.counts);
    heap_.lock().Release();
    for (const Slot& s : slots_) s.lock.Release();
    return sum;
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

  // One CPU's, or that of several with numbers 16 apart. A cache line of its own, at least.
  struct alignas(64) Slot {
    mutable Lock lock{LockRank::kLentPages};
    std::atomic<bool> open{false};         // hugepages may be lent; closed under the lock
    std::atomic<bool> just_opened{false};  // since the last tick
    uint32_t round = 0;                    // grows when hugepages are returned
    uint64_t takes = 0;                    // since the last tick
    LargeBlockCounts counts;
    LentPages<PageHeap>* pages = nullptr;  // made when first needed, kept
    RecordPool<Span>* spans = nullptr;     // the same
  };

  // What a block's owner has, for InPlaceOf's callers, who hold its lock.
  struct HeapPages {
    PageHeap& heap;
    void Give(PageRange r) STRATA_NO_TSA { heap.GiveHolding(r); }
    bool TryGrow(PageRange r, Length n) STRATA_NO_TSA { return heap.TryGrowHolding(r, n); }
    void Shrink(PageRange r, Length n) STRATA_NO_TSA { heap.ShrinkHolding(r, n); }
  };
  template <class Pages>
  struct Place {
    static constexpr bool kLent = std::is_same_v<Pages, LentPages<PageHeap>>;
    LargeBlockCounts& counts;
    RecordPool<Span>& spans;
    Pages& pages;
  };

  Slot& SlotOfThisCpu() const { return slots_[cpu_number_() % kSlots]; }

  // Calls f with the lock held that guards the block. A waiter for the page heap's is counted in
  // `waiter`, if there is one.
  template <class F>
  auto InPlaceOf(const Span* span, Slot* waiter, F f) const STRATA_NO_TSA {
    if (STRATA_UNLIKELY(span->lent_to != 0)) {
      Slot& s = slots_[span->lent_to - 1u];
      LockHolder hold(s.lock);
      // Of an earlier round: the hugepage it lies in was returned, and stays the page heap's as
      // long as there is anything in it.
      if (s.round == span->last_used) {
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

  Span* TakeLent(Slot& slot, size_t size, Length n, bool* zeroed) {
    LockHolder hold(slot.lock);
    if (!slot.open.load(std::memory_order_relaxed) || !MakePages(slot)) return nullptr;
    Span* span = slot.spans->New();
    if (span == nullptr) return nullptr;
    const PageRun run = slot.pages->Take(n);
    if (run.range.empty()) {
      slot.spans->Delete(span);
      return nullptr;
    }
    ++slot.takes;
    slot.counts.Taken(size, run.range.length);
    span->lent_to = static_cast<uint8_t>(&slot - slots_ + 1);
    span->last_used = slot.round;
    *zeroed = run.zeroed;
    return Fill(span, run.range, size);
  }

  static Span* Fill(Span* span, PageRange range, size_t size) {
    span->state = SpanState::kLarge;
    span->first_page = static_cast<uint32_t>(range.first.raw());
    span->num_pages = static_cast<uint32_t>(range.length.raw());
    span->released_or_asked = size;
    return span;
  }

  static void NoteAsked(LargeBlockCounts& counts, Span* span, size_t size) {
    counts.asked += size - span->released_or_asked;  // unsigned: comes out right when it wraps
    span->released_or_asked = size;
  }

  bool MakePages(Slot& s) {
    using Spans = RecordPool<Span>;
    using Pages = LentPages<PageHeap>;
    if (s.spans == nullptr) {
      void* spans = arena_.Allocate(sizeof(Spans), alignof(Spans));
      if (spans != nullptr) s.spans = ::new (spans) Spans(arena_);
    }
    if (s.pages == nullptr) {
      void* pages = arena_.Allocate(sizeof(Pages), alignof(Pages));
      if (pages != nullptr) s.pages = ::new (pages) Pages(heap_, arena_);
    }
    return s.spans != nullptr && s.pages != nullptr;
  }

  void Return(Slot& s) {
    LockHolder hold(s.lock);
    if (s.pages == nullptr || s.pages->hugepages() == 0) return;
    s.pages->ReturnAll();
    ++s.round;
    LockHolder hold_heap(heap_.lock());
    counts_.Add(s.counts);
    s.counts = {};
  }

  PageHeap& heap_;
  MetadataArena& arena_;
  const CpuNumber cpu_number_;
  mutable RecordPool<Span> spans_ STRATA_GUARDED_BY(heap_.lock());
  mutable LargeBlockCounts counts_ STRATA_GUARDED_BY(heap_.lock());    // of blocks in no slot
  mutable size_t waits_[kSlots] STRATA_GUARDED_BY(heap_.lock()) = {};  // since the last tick
  mutable Slot slots_[kSlots];
};

}  // namespace strata
