// Guarded blocks: each lies on pages of its own between pages that nobody can touch, at one end of
// them or the other, and the pages are closed when the block is freed. So a use after free and an
// access beyond either end fault at once, and what falls into the rest of the pages is found at the
// free. A pool has few of them; who chooses the blocks is malloc/guard.h. After K. Serebryany et
// al., "GWP-ASan: Sampling-Based Detection of Memory-Safety Bugs in Production", ICSE-SEIP 2024,
// sections 3 and 4, where a block is at most a page. Sits in heaps, beside the heap: its addresses
// lie outside the heap's window.
//
// Each slot has a place for the largest block. A freed block's address is used again after those of
// all other slots that are free, whatever their sizes.
//
// No lock: a slot changes hands by its state alone, so any thread may be in here when another
// forks, or when a handler of SIGSEGV asks Explain. A slot that is caught between two states is
// lost.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/metadata_arena.h"
#include "base/units.h"
#include "heaps/block_history.h"

namespace strata {

enum class GuardState : uint32_t {
  kUnused,
  kBusy,  // changes hands now
  kLive,
  kFreed,
};

struct GuardedBlock {
  std::atomic<GuardState> state{GuardState::kUnused};
  std::atomic<uint32_t> size{0};  // asked for
  std::atomic<uintptr_t> address{0};
  size_t has_memory = 0;  // bytes of its place; for who holds it kBusy
  BlockEvent allocated;
  BlockEvent freed;
};

enum class GuardFinding : uint8_t {
  kNone,
  kFreedBefore,
  kNotItsStart,
  kUseAfterFree,
  kBeyondEnd,
  kBeforeStart,
};

// About a block, or about none.
struct GuardVerdict {
  GuardFinding finding = GuardFinding::kNone;
  GuardedBlock* block = nullptr;
  uintptr_t at = 0;      // the address that gives it away
  bool is_held = false;  // Release lets others have the slot again
};

// Of one pool, in whole native pages.
struct GuardSizes {
  size_t most;  // the largest block
  size_t gap;   // at least so much is closed between two
};

// What became of a place that was closed.
enum class ClosedPlace : uint8_t {
  kEmpty,  // reads as zero when opened again
  kKept,   // still has memory, and may even be open
  kLost,   // may be somebody else's
};

// Pages: uintptr_t Reserve(size_t bytes, size_t align), of memory that cannot be touched, 0 if
// there is none; bool Open(uintptr_t, size_t bytes), which may be refused; ClosedPlace
// Close(uintptr_t, size_t bytes) of a whole place.
template <class Pages>
class GuardPool {
 public:
  constexpr explicit GuardPool(GuardSizes sizes, Pages pages = Pages())
      : pages_(pages), sizes_(sizes) {}
  GuardPool(const GuardPool&) = delete;
  GuardPool& operator=(const GuardPool&) = delete;

  // Before Init.
  void SetSizes(GuardSizes sizes) { sizes_ = sizes; }

  size_t most_bytes() const { return sizes_.most; }
  // The largest power of two at whose multiples all places begin.
  size_t most_align() const {
    const size_t both = sizes_.most | sizes_.gap;
    return both & ~(both - 1);
  }

  // Once. False: no memory.
  bool Init(MetadataArena& arena, size_t slots) {
    auto* records =
        static_cast<GuardedBlock*>(arena.Allocate(slots * sizeof(GuardedBlock), alignof(size_t)));
    const uintptr_t base = records == nullptr ? 0 : pages_.Reserve(BytesFor(slots), most_align());
    if (base == 0) return false;
    // The arena's memory is zero, as they are at first (guard_pool_test.cpp): what is written now
    // would take pages.
    records_ = records;
    slots_ = slots;
    // release: who sees the base sees the rest.
    base_.store(base, std::memory_order_release);
    return true;
  }

  bool Owns(const void* p) const {
    const uintptr_t base = base_.load(std::memory_order_acquire);
    return base != 0 && reinterpret_cast<uintptr_t>(p) - base < BytesFor(slots_);
  }

  // A block of at most most_bytes(), aligned to a power of two up to most_align(); null: no slot is
  // free. Even `random`: at the left end of its pages; odd: at the right.
  void* Take(size_t size, size_t align, uint32_t random, const BlockEvent& event) {
    if (base_.load(std::memory_order_acquire) == 0) return nullptr;
    for (size_t tries = 0; tries < slots_; ++tries) {
      const size_t i = next_.fetch_add(1, std::memory_order_relaxed) % slots_;
      GuardedBlock& b = records_[i];
      GuardState was = b.state.load(std::memory_order_relaxed);
      if ((was != GuardState::kUnused && was != GuardState::kFreed) ||
          !b.state.compare_exchange_strong(was, GuardState::kBusy, std::memory_order_acquire))
        continue;
      const uintptr_t place = PlaceOf(i);
      const size_t open = OpenBytes(size);
      if (!pages_.Open(place, open)) {
        b.state.store(was, std::memory_order_release);
        return nullptr;
      }
      NoteMemory(b, b.has_memory > open ? b.has_memory : open);
      uintptr_t at = place;
      // An empty block, too, is on its page.
      const size_t least = size == 0 ? 1 : size;
      if ((random & 1) != 0) at += (open - least) & ~(align - 1);
      memset(reinterpret_cast<void*>(place), kSlack, at - place);
      memset(reinterpret_cast<void*>(at + size), kSlack, place + open - at - size);
      b.size.store(static_cast<uint32_t>(size), std::memory_order_relaxed);
      b.address.store(at, std::memory_order_relaxed);
      b.allocated = event;
      b.freed = {};
      taken_.fetch_add(1, std::memory_order_relaxed);
      live_.fetch_add(1, std::memory_order_relaxed);
      live_bytes_.fetch_add(size, std::memory_order_relaxed);
      b.state.store(GuardState::kLive, std::memory_order_release);
      return reinterpret_cast<void*>(at);
    }
    return nullptr;
  }

  // Of an address in the pool. kNone: the block is freed. kBeyondEnd and kBeforeStart: so it is,
  // and something had been written there; nobody gets the slot before Release. Otherwise nothing
  // was done.
  GuardVerdict Free(void* p, const BlockEvent& event) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    GuardedBlock* b = BlockNear(at);
    if (b->address.load(std::memory_order_relaxed) != at)
      return {GuardFinding::kNotItsStart, b, at};
    GuardState live = GuardState::kLive;
    if (!b->state.compare_exchange_strong(live, GuardState::kBusy, std::memory_order_acquire))
      return {GuardFinding::kFreedBefore, b, at};
    GuardVerdict verdict = CheckSlack(*b);
    b->freed = event;
    live_.fetch_sub(1, std::memory_order_relaxed);
    live_bytes_.fetch_sub(b->size.load(std::memory_order_relaxed), std::memory_order_relaxed);
    const ClosedPlace closed = pages_.Close(PlaceOf(*b), sizes_.most);
    if (closed == ClosedPlace::kKept) {
      is_dirty_.store(true, std::memory_order_relaxed);
    } else {
      NoteMemory(*b, 0);
    }
    const bool is_free = closed != ClosedPlace::kLost && verdict.finding == GuardFinding::kNone;
    verdict.is_held = closed != ClosedPlace::kLost && !is_free;
    if (is_free) b->state.store(GuardState::kFreed, std::memory_order_release);
    return verdict;
  }

  // After the report of what Free found there.
  void Release(const GuardVerdict& v) {
    if (v.is_held) v.block->state.store(GuardState::kFreed, std::memory_order_release);
  }

  // Of the live block that starts there; 0: none does.
  size_t SizeOf(const void* p) const {
    const auto at = reinterpret_cast<uintptr_t>(p);
    const GuardedBlock* b = BlockNear(at);
    const bool live = b->state.load(std::memory_order_acquire) == GuardState::kLive &&
                      b->address.load(std::memory_order_relaxed) == at;
    return live ? b->size.load(std::memory_order_relaxed) : 0;
  }

  // Why an access to an address in the pool faulted. Async-signal-safe. kNone: not for a reason
  // that is known here.
  GuardVerdict Explain(uintptr_t at) const {
    GuardedBlock* b = BlockNear(at);
    const GuardState state = b->state.load(std::memory_order_acquire);
    if (state == GuardState::kUnused) return {GuardFinding::kNone, nullptr, at};
    if (IsInPages(*b, at)) {
      const bool freed = state != GuardState::kLive;
      return {freed ? GuardFinding::kUseAfterFree : GuardFinding::kNone, b, at};
    }
    const bool before = at < b->address.load(std::memory_order_relaxed);
    return {before ? GuardFinding::kBeforeStart : GuardFinding::kBeyondEnd, b, at};
  }

  // Lets an access that faulted go on, for a program that is to. All of a freed block at once: the
  // kernel keeps a record for each piece.
  void Forgive(uintptr_t at) {
    is_dirty_.store(true, std::memory_order_relaxed);
    const GuardedBlock* b = BlockNear(at);
    if (IsInPages(*b, at)) {
      pages_.Open(PlaceOf(*b), OpenBytes(b->size.load(std::memory_order_relaxed)));
    } else {
      pages_.Open(at & ~(kNativePageSize - 1), kNativePageSize);
    }
  }

  // Whether a block is all zeroes when it is taken.
  bool GivesZeroes() const { return !is_dirty_.load(std::memory_order_relaxed); }

  // Calls f(uintptr_t start, size_t bytes) for the pages of each live block. Others may free it
  // meanwhile.
  template <class F>
  void VisitLive(F f) const {
    if (base_.load(std::memory_order_acquire) == 0) return;
    for (size_t i = 0; i < slots_; ++i) {
      const GuardedBlock& b = records_[i];
      if (b.state.load(std::memory_order_acquire) == GuardState::kLive)
        f(PlaceOf(i), OpenBytes(b.size.load(std::memory_order_relaxed)));
    }
  }

  size_t slots() const { return slots_; }
  size_t taken() const { return taken_.load(std::memory_order_relaxed); }
  size_t live() const { return live_.load(std::memory_order_relaxed); }
  size_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  // Of the pages that the kernel may hold memory for: those of live blocks, mostly.
  size_t open_bytes() const { return open_.load(std::memory_order_relaxed); }

 private:
  static constexpr unsigned char kSlack = 0xd7;

  size_t stride() const { return sizes_.most + sizes_.gap; }
  size_t BytesFor(size_t slots) const { return sizes_.gap + slots * stride(); }
  uintptr_t PlaceOf(size_t slot) const {
    return base_.load(std::memory_order_relaxed) + sizes_.gap + slot * stride();
  }
  uintptr_t PlaceOf(const GuardedBlock& b) const {
    return PlaceOf(static_cast<size_t>(&b - records_));
  }
  static size_t OpenBytes(size_t size) {
    return RoundUp(size == 0 ? size_t{1} : size, kNativePageSize);
  }
  bool IsInPages(const GuardedBlock& b, uintptr_t at) const {
    return at - PlaceOf(b) < OpenBytes(b.size.load(std::memory_order_relaxed));
  }

  // That whose pages are nearest, of the blocks that were ever taken; any if none of the two that
  // may be meant was.
  GuardedBlock* BlockNear(uintptr_t at) const {
    const size_t offset = at - base_.load(std::memory_order_relaxed);
    const size_t i = offset < sizes_.gap ? 0 : (offset - sizes_.gap) / stride();
    GuardedBlock& here = records_[i];
    const bool here_was = WasUsed(i);
    if (offset < sizes_.gap || (here_was && IsInPages(here, at))) return &here;
    const size_t before = here_was || i == 0 ? i : i - 1;
    const bool before_was = here_was || WasUsed(before);
    if (i + 1 == slots_ || !WasUsed(i + 1)) return before_was ? &records_[before] : &here;
    if (!before_was) return &records_[i + 1];
    const size_t size = records_[before].size.load(std::memory_order_relaxed);
    return at - PlaceOf(before) - OpenBytes(size) < PlaceOf(i + 1) - at ? &records_[before]
                                                                        : &records_[i + 1];
  }
  bool WasUsed(size_t slot) const {
    return records_[slot].state.load(std::memory_order_acquire) != GuardState::kUnused;
  }

  // By whoever holds the slot kBusy.
  void NoteMemory(GuardedBlock& b, size_t bytes) {
    open_.fetch_add(bytes - b.has_memory, std::memory_order_relaxed);
    b.has_memory = bytes;
  }

  GuardVerdict CheckSlack(GuardedBlock& b) const {
    const uintptr_t start = b.address.load(std::memory_order_relaxed);
    const size_t size = b.size.load(std::memory_order_relaxed);
    const uintptr_t place = PlaceOf(b);
    for (uintptr_t at = start + size; at < place + OpenBytes(size); ++at) {
      if (*reinterpret_cast<const unsigned char*>(at) != kSlack)
        return {GuardFinding::kBeyondEnd, &b, at};
    }
    for (uintptr_t at = start; at-- > place;) {
      if (*reinterpret_cast<const unsigned char*>(at) != kSlack)
        return {GuardFinding::kBeforeStart, &b, at};
    }
    return {GuardFinding::kNone, &b, start};
  }

  Pages pages_;
  GuardSizes sizes_;
  GuardedBlock* records_ = nullptr;
  size_t slots_ = 0;
  std::atomic<uintptr_t> base_{0};
  std::atomic<size_t> next_{0};
  std::atomic<size_t> taken_{0};
  std::atomic<size_t> live_{0};
  std::atomic<size_t> live_bytes_{0};
  std::atomic<size_t> open_{0};
  std::atomic<bool> is_dirty_{false};  // what is taken may not be all zeroes
};

}  // namespace strata
