// Guarded blocks: each lies on a page of its own between pages that nobody can touch, at one end of
// it or the other, and the page is closed when the block is freed. So a use after free and an
// access beyond either end fault at once, and what falls into the rest of the page is found at the
// free. A pool has few of them; who chooses the blocks is malloc/guard.h. After K. Serebryany et
// al., "GWP-ASan: Sampling-Based Detection of Memory-Safety Bugs in Production", ICSE-SEIP 2024,
// sections 3 and 4. Sits in heaps, beside the heap: its addresses lie outside the heap's window.
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
  bool has_memory = false;  // its page; for who holds it kBusy
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
  const GuardedBlock* block = nullptr;
  uintptr_t at = 0;  // the address that gives it away
};

// Pages: uintptr_t Reserve(size_t bytes), of memory that cannot be touched, 0 if there is none;
// bool Open(uintptr_t, size_t bytes), which may be refused; bool Close(uintptr_t, size_t bytes):
// whether the memory went back.
template <class Pages>
class GuardPool {
 public:
  static constexpr size_t kMostBytes = kNativePageSize;
  // Two closed pages between two blocks: what misses one by a page misses the other, too.
  static constexpr size_t kStride = 3 * kNativePageSize;
  static constexpr size_t kLead = 2 * kNativePageSize;

  constexpr explicit GuardPool(Pages pages = Pages()) : pages_(pages) {}
  GuardPool(const GuardPool&) = delete;
  GuardPool& operator=(const GuardPool&) = delete;

  // Once. False: no memory.
  bool Init(MetadataArena& arena, size_t slots) {
    auto* records =
        static_cast<GuardedBlock*>(arena.Allocate(slots * sizeof(GuardedBlock), alignof(size_t)));
    const uintptr_t base = records == nullptr ? 0 : pages_.Reserve(BytesFor(slots));
    if (base == 0) return false;
    for (size_t i = 0; i < slots; ++i) ::new (&records[i]) GuardedBlock();
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

  // A block of at most kMostBytes, aligned to a power of two up to a page; null: no slot is free.
  // Even `random`: at the left end of its page; odd: at the right.
  void* Take(size_t size, size_t align, uint32_t random, const BlockEvent& event) {
    if (base_.load(std::memory_order_acquire) == 0) return nullptr;
    for (size_t tries = 0; tries < slots_; ++tries) {
      const size_t i = next_.fetch_add(1, std::memory_order_relaxed) % slots_;
      GuardedBlock& b = records_[i];
      GuardState was = b.state.load(std::memory_order_relaxed);
      if ((was != GuardState::kUnused && was != GuardState::kFreed) ||
          !b.state.compare_exchange_strong(was, GuardState::kBusy, std::memory_order_acquire))
        continue;
      const uintptr_t page = PageOf(i);
      if (!pages_.Open(page, kNativePageSize)) {
        b.state.store(was, std::memory_order_release);
        return nullptr;
      }
      if (!b.has_memory) touched_.fetch_add(1, std::memory_order_relaxed);
      b.has_memory = true;
      uintptr_t at = page;
      // An empty block, too, is on its page.
      const size_t least = size == 0 ? 1 : size;
      if ((random & 1) != 0) at += (kNativePageSize - least) & ~(align - 1);
      memset(reinterpret_cast<void*>(page), kSlack, at - page);
      memset(reinterpret_cast<void*>(at + size), kSlack, page + kNativePageSize - at - size);
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
  // and something had been written there. Otherwise nothing was done.
  GuardVerdict Free(void* p, const BlockEvent& event) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    GuardedBlock* b = BlockNear(at);
    if (b->address.load(std::memory_order_relaxed) != at)
      return {GuardFinding::kNotItsStart, b, at};
    GuardState live = GuardState::kLive;
    if (!b->state.compare_exchange_strong(live, GuardState::kBusy, std::memory_order_acquire))
      return {GuardFinding::kFreedBefore, b, at};
    const GuardVerdict verdict = CheckSlack(*b);
    b->freed = event;
    live_.fetch_sub(1, std::memory_order_relaxed);
    live_bytes_.fetch_sub(b->size.load(std::memory_order_relaxed), std::memory_order_relaxed);
    if (pages_.Close(at & ~(kNativePageSize - 1), kNativePageSize)) {
      b->has_memory = false;
      touched_.fetch_sub(1, std::memory_order_relaxed);
    }
    b->state.store(GuardState::kFreed, std::memory_order_release);
    return verdict;
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
    const GuardedBlock* b = BlockNear(at);
    // The nearest has never been: so it is the one before, if any.
    if (b->state.load(std::memory_order_acquire) == GuardState::kUnused && b != records_) --b;
    const GuardState state = b->state.load(std::memory_order_acquire);
    if (state == GuardState::kUnused) return {GuardFinding::kNone, nullptr, at};
    const uintptr_t start = b->address.load(std::memory_order_relaxed);
    const bool on_page = (at & ~(kNativePageSize - 1)) == (start & ~(kNativePageSize - 1));
    if (on_page) {
      const bool freed = state != GuardState::kLive;
      return {freed ? GuardFinding::kUseAfterFree : GuardFinding::kNone, b, at};
    }
    return {at < start ? GuardFinding::kBeforeStart : GuardFinding::kBeyondEnd, b, at};
  }

  // Lets an access that faulted go on, for a program that is to.
  void Forgive(uintptr_t at) { pages_.Open(at & ~(kNativePageSize - 1), kNativePageSize); }

  size_t slots() const { return slots_; }
  size_t taken() const { return taken_.load(std::memory_order_relaxed); }
  size_t live() const { return live_.load(std::memory_order_relaxed); }
  size_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  size_t touched_bytes() const {
    return touched_.load(std::memory_order_relaxed) * kNativePageSize;
  }

 private:
  static constexpr unsigned char kSlack = 0xd7;

  static constexpr size_t BytesFor(size_t slots) { return kLead + slots * kStride; }
  uintptr_t PageOf(size_t slot) const {
    return base_.load(std::memory_order_relaxed) + kLead + slot * kStride;
  }

  // The one whose page is nearest.
  GuardedBlock* BlockNear(uintptr_t at) const {
    const size_t offset = at - base_.load(std::memory_order_relaxed);
    const size_t from = offset < kNativePageSize ? 0 : offset - kNativePageSize;
    const size_t i = from / kStride;
    return &records_[i < slots_ ? i : slots_ - 1];
  }

  static GuardVerdict CheckSlack(const GuardedBlock& b) {
    const uintptr_t start = b.address.load(std::memory_order_relaxed);
    const uintptr_t page = start & ~(kNativePageSize - 1);
    const uintptr_t end = start + b.size.load(std::memory_order_relaxed);
    for (uintptr_t at = end; at < page + kNativePageSize; ++at) {
      if (*reinterpret_cast<const unsigned char*>(at) != kSlack)
        return {GuardFinding::kBeyondEnd, &b, at};
    }
    for (uintptr_t at = start; at-- > page;) {
      if (*reinterpret_cast<const unsigned char*>(at) != kSlack)
        return {GuardFinding::kBeforeStart, &b, at};
    }
    return {GuardFinding::kNone, &b, start};
  }

  Pages pages_;
  GuardedBlock* records_ = nullptr;
  size_t slots_ = 0;
  std::atomic<uintptr_t> base_{0};
  std::atomic<size_t> next_{0};
  std::atomic<size_t> taken_{0};
  std::atomic<size_t> live_{0};
  std::atomic<size_t> touched_{0};  // pages that have memory
  std::atomic<size_t> live_bytes_{0};
};

}  // namespace strata
