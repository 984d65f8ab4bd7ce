// The heap of LLAMA: objects are placed by how long they are predicted to live. Those of up to
// 7 KiB are laid into spans by an allocator of each thread, larger ones take whole blocks of huge
// pages. Whether a prediction was right shows by itself, and pages move between lifetimes by it.
//
// M. Maas et al., "Combining machine learning and lifetime-based resource management for memory
// allocation and beyond", CACM 67(4), 2024, section 3; "Learning-based memory allocation for C++
// server workloads", ASPLOS 2020. The top of lifetime; src/heaps/llama.h makes a malloc of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "lifetime/block_heap.h"
#include "lifetime/local_spans.h"
#include "strata/layers/detail/misuse.h"
#include "strata/layers/heap.h"
#include "strata/layers/thread/index.h"
#include "strata/layers/thread/of_thread.h"

namespace strata {

// Which says what shard of the pages the caller uses: that of its CPU, so that there are as many as
// CPUs in use and threads seldom meet at a lock.
//
// One heap of a type has allocators of its threads, the first that is used; in others of the same
// type, and in threads that have ended theirs, all share one, under a lock. Who ends the heap has
// ended the other threads that used it; its memory goes with the source.
template <class Source, class Clock, size_t kShards = 16, SparePage kSpare = SparePage::kNone,
          class Which = layers::CpuIndex, class Thread = layers::OfThread>
class LifetimeHeap {
 public:
  constexpr LifetimeHeap(Source& source, MetadataArena::MapFunction map)
      : blocks_(source, map), shared_(nullptr) {}
  ~LifetimeHeap() {
    if (IsMine(mine())) mine() = nullptr;
  }
  LifetimeHeap(const LifetimeHeap&) = delete;
  LifetimeHeap& operator=(const LifetimeHeap&) = delete;

  // At least `bytes` at a multiple of `align`, a power of two; null: out of memory.
  STRATA_ALWAYS_INLINE void* Allocate(size_t bytes, size_t align, LifetimeClass predicted) {
    const Rung rung = RungOf(predicted);
    if (STRATA_LIKELY(bytes <= LineSpan::kLargest && align <= kGranule)) {
      const size_t size = RoundUp(bytes + (bytes == 0), kGranule);
      Local* local = mine();
      if (STRATA_LIKELY(IsMine(local))) {
        void* p = local->spans.Allocate(size, rung);
        if (STRATA_LIKELY(p != nullptr)) return p;
      }
      return AllocateSlow(size, kGranule, rung);
    }
    return AllocateLarge(bytes, align, rung);
  }

  STRATA_ALWAYS_INLINE void Deallocate(void* block) {
    const auto p = reinterpret_cast<uintptr_t>(block);
    HugeBlockPage* page = blocks_.PageOf(p);
    if (STRATA_UNLIKELY(page == nullptr)) DieOfForeign();
    if (STRATA_UNLIKELY(!Blocks::IsInSpan(*page, p))) return DeallocateLarge(page, p);
    const LineSpan::Freed freed = LineSpan::HeadOf(p)->Free(p);
    if (STRATA_UNLIKELY(freed != LineSpan::Freed::kFine)) FreedSlow(freed, p);
  }

  size_t SizeOf(void* block) {
    const auto p = reinterpret_cast<uintptr_t>(block);
    HugeBlockPage* page = blocks_.PageOf(p);
    size_t bytes = 0;
    if (page != nullptr) {
      bytes = Blocks::IsInSpan(*page, p) ? LineSpan::HeadOf(p)->SizeOf(p)
                                         : blocks_.ObjectBytes(page, p);
    }
    if (bytes == 0) DieOfForeign();
    return bytes;
  }

  // Moves pages whose deadline has passed. The slow paths of allocation do so by themselves.
  void Tick(uint64_t now) { blocks_.ExpireAll(now); }

  // Closes what the calling thread allocates from; it begins afresh.
  void Flush() {
    if (IsMine(mine())) mine()->spans.CloseAll(blocks_);
    LockHolder hold(locals_lock_);
    shared_.spans.CloseAll(blocks_);
  }

  LifetimeStats Stats() {
    LifetimeStats stats = blocks_.stats();
    stats.recycled_lines = lines_reused_.load(std::memory_order_relaxed);
    return stats;
  }
  // Where p lies, for tests, which have one thread then.
  const HugeBlockPage& PageAt(const void* p) const {
    return *blocks_.PageOf(reinterpret_cast<uintptr_t>(p));
  }
  Rung RungAt(const void* p) const { return PageAt(p).rung; }

  // In the order in which they may be held together.
  template <class F>
  void VisitLocks(F f) {
    f(locals_lock_);
    blocks_.VisitLocks(f);
  }
  template <class F>
  void VisitLocksOfThreads(F&& f) {
    at_end_.visit_locks(f);
  }

 private:
  using Blocks = BlockHeap<Source, Clock, kShards, kSpare>;

  struct Local {
    constexpr explicit Local(LifetimeHeap* of) : heap(of) {}
    LifetimeHeap* heap;
    LocalSpans spans;
    Local* next_idle = nullptr;
  };

  // A thread whose allocator has ended, or is being made.
  static Local* Ended() { return reinterpret_cast<Local*>(1); }
  static Local*& mine() { return Thread::template pointer<Local>(); }
  STRATA_ALWAYS_INLINE bool IsMine(const Local* local) const {
    return local > Ended() && local->heap == this;
  }

  STRATA_NOINLINE void* AllocateSlow(size_t size, size_t align, Rung rung) {
    Local* local = mine();
    if (local == nullptr) local = Begin();
    if (IsMine(local)) return FromSpans(*local, size, align, rung);
    LockHolder hold(locals_lock_);
    return FromSpans(shared_, size, align, rung);
  }
  void* FromSpans(Local& local, size_t size, size_t align, Rung rung) {
    size_t reused = 0;
    void* p = local.spans.AllocateSlow(size, align, rung, Which::index(), blocks_, &reused);
    if (reused != 0) lines_reused_.fetch_add(reused, std::memory_order_relaxed);
    return p;
  }

  STRATA_NOINLINE void* AllocateLarge(size_t bytes, size_t align, Rung rung) {
    if (bytes > layers::kMaxRequest || align > kMostAlign) return nullptr;
    if (align <= kBlockSize / 2 && bytes + align <= LineSpan::kLargest)
      return AllocateSlow(RoundUp(bytes + (bytes == 0), kGranule), align, rung);
    const uintptr_t p = blocks_.TakeObject(bytes + (bytes == 0), align, rung, Which::index());
    return reinterpret_cast<void*>(p);
  }
  STRATA_NOINLINE void DeallocateLarge(HugeBlockPage* page, uintptr_t p) {
    if (!blocks_.FreeObject(page, p)) DieOfForeign();
  }
  STRATA_NOINLINE void FreedSlow(LineSpan::Freed freed, uintptr_t p) {
    if (freed == LineSpan::Freed::kNotAnObject) DieOfForeign();
    if (freed == LineSpan::Freed::kTwice) layers::DieOfMisuse(" llama", "a block was freed twice");
    blocks_.GiveSpan(LineSpan::BaseOf(p));
  }
  [[noreturn]] STRATA_NOINLINE static void DieOfForeign() {
    layers::DieOfMisuse(" llama", "freed twice, or never a block");
  }

  // The calling thread's allocator, or null. What is called here may allocate, from the shared one.
  STRATA_NOINLINE Local* Begin() {
    mine() = Ended();
    Local* local = NewLocal();
    if (local == nullptr || !at_end_.Call(End, local)) {
      if (local != nullptr) Retire(*local);
      mine() = nullptr;  // perhaps later
      return nullptr;
    }
    return mine() = local;
  }
  static void End(void* ending) {
    auto* local = static_cast<Local*>(ending);
    mine() = Ended();  // later destructors share
    local->spans.CloseAll(local->heap->blocks_);
    local->heap->Retire(*local);
  }
  Local* NewLocal() {
    LockHolder hold(locals_lock_);
    if (idle_ != nullptr) {
      Local* local = idle_;
      idle_ = local->next_idle;
      return local;
    }
    void* memory = blocks_.supply().arena().Allocate(sizeof(Local), alignof(Local));
    return memory == nullptr ? nullptr : ::new (memory) Local(this);
  }
  void Retire(Local& local) {
    LockHolder hold(locals_lock_);
    local.next_idle = idle_;
    idle_ = &local;
  }

  static constexpr size_t kMostAlign = size_t{1} << 30;

  Blocks blocks_;
  Lock locals_lock_{LockRank::kLocalSpans};
  Local* idle_ STRATA_GUARDED_BY(locals_lock_) = nullptr;
  Local shared_ STRATA_GUARDED_BY(locals_lock_);
  std::atomic<uint64_t> lines_reused_{0};
  typename Thread::AtEnd at_end_;
};

}  // namespace strata
