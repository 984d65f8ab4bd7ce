// What the fast path hands over: a thread's first call, cache misses, large blocks, bad pointers,
// the per-thread mode and the stand-down. See fast_path.h; what depends on the place that allocates
// is in place_path.cpp, sizes and realloc are in resize.cpp. A template with a restartable
// sequence, as the caches have them, is made in this file alone: ld can't drop a second copy of its
// descriptor.
#include <errno.h>

#include "base/arch.h"
#include "base/errno_keeper.h"
#include "malloc/background.h"
#include "malloc/bad_free.h"
#include "malloc/blocks.h"
#include "malloc/checked.h"
#include "malloc/fast_path.h"
#include "malloc/fork_handlers.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/own_process.h"
#include "malloc/per_thread_path.h"
#include "malloc/region_calls.h"
#include "malloc/release_now.h"
#include "malloc/runtime.h"
#include "malloc/sampling.h"
#include "malloc/slow_path.h"
#include "malloc/stand_down.h"
#include "malloc/start_code.h"
#include "os/resident.h"
#include "os/side_stack.h"

namespace strata {
namespace {

// The page heap aligns to no more; the kernel's own largest page is as big.
constexpr size_t kMaxAlign = size_t{1} << 30;

void* AllocateSmallPerThread(Runtime& r, SizeClass c) {
  ThreadCache* cache = CacheOfThisThread();
  if (STRATA_UNLIKELY(cache == nullptr)) {
    void* one[1];
    return r.front().transfer.Take(c, one, 1) == 1 ? one[0] : nullptr;
  }
  if (void* p = cache->Pop(c)) return p;
  return cache->PopSlow(c, r.front().transfer);
}

void* TrySmall(Runtime& r, SizeClass c) {
  if (t_state.slabs == nullptr && !BindThread()) return AllocateSmallPerThread(r, c);
  if (void* p = r.front().cpu.ops().Pop(c)) return p;
  return r.front().cpu.PopSlow(c);
}

}  // namespace

void EmptyCaches(Runtime& r) {
  OnSideStack([&r] {
    EmptyFrontEnd(r);
    r.heap.EmptyCaches();
  });
}

namespace {

// The heap takes memory though objects lie free in caches: from there they can serve one class
// only. Some go to where any request can use them (heaps/growth.h). Not from a slab that is not the
// thread's to use, nor where other locks must not be taken.
STRATA_NOINLINE void GiveUp(Runtime& r) {
  const ThreadState& t = t_state;
  if (t.vforked || t.at_work || t.starts_no_thread || !r.heap.growth().Take()) return;
  LetGoOfStartCode();
  OnSideStack([&r, &t] {
    if (t.slabs != nullptr) r.front().cpu.GiveUpCostly(r.heap.central());
    r.front().transfer.GiveUpCostly();
    if (r.heap.growth().IsSmall()) r.heap.GiveUnused();
  });
}

void* AllocateSmall(Runtime& r, SizeClass c) {
  if (STRATA_UNLIKELY(r.heap.growth().Grew())) GiveUp(r);
  void* p = TrySmall(r, c);
  if (STRATA_UNLIKELY(p == nullptr)) {
    EmptyCaches(r);
    p = TrySmall(r, c);
    if (p == nullptr) return nullptr;
  }
  WipeMark(p);
  return p;
}

// Objects that share their span come from the caches, which know of no placement.
static_assert(InfoOf(ClassOfSize(kLeastPlaced)).objects == 1);
bool IsPlacedApart(SizeClass c, Placement placement) {
  return InfoOf(c).objects == 1 && GroupOf(placement) != GroupOf(PlacementOf(c));
}

// Reports a pointer to a span of the class at which no object begins, or one that is free for sure.
bool ExpectObject(const Runtime& r, void* p, SizeClass c) {
  const ObjectState state = r.heap.blocks().StateOf(c, p);
  if (STRATA_LIKELY(state == ObjectState::kGivenOut)) return true;
  HandleBadFree(state == ObjectState::kFree ? BadFree::kDouble : BadFree::kMisaligned, p);
  return false;
}

void FreeSmallPerThread(Runtime& r, void* p, SizeClass c) {
  SetMark(p, r.freed_mark);
  ThreadCache* cache = CacheOfThisThread();
  const size_t limit = r.thread_cache_limit.load(std::memory_order_relaxed);
  if (STRATA_UNLIKELY(cache == nullptr)) {
    r.front().transfer.Give(c, &p, 1);
  } else if (STRATA_UNLIKELY(!(cache->HasRoom(c, limit)
                                   ? cache->Push(c, p)
                                   : cache->PushSlow(c, p, r.front().transfer, limit)))) {
    HandleBadFree(BadFree::kDouble, p);
  }
}

// p lies in the heap. Of a page with a sampled block: false.
STRATA_ALWAYS_INLINE bool IsDivided(const void* p) {
  const Runtime& r = TheRuntime();
  const PageId page((reinterpret_cast<uintptr_t>(p) - r.kernel.base()) >> kPageShift);
  return r.heap.page_map().EntryOf(page) == kDividedPage;
}

// No block of the heap begins at p: it may be one of a reap's.
void FreeOther(void* p) {
  if (!FreeReapBlock(p)) HandleBadFree(BadFree::kNotLive, p);
}

void FreeLarge(Runtime& r, void* p, SizeClass entry) {
  Span* span = r.heap.large().At(p);
  if (STRATA_UNLIKELY(span == nullptr)) return FreeOther(p);
  if (STRATA_UNLIKELY(IsSampledPage(entry))) SampleFreed(r, p);
  r.heap.large().Give(span);
}

// A block of libc's own heap, from before this library took over malloc (it was loaded late, with
// its symbols made global), goes back to libc. Anything else that is not ours is an error.
void FreeForeign(void* p) {
  bool libcs = false;
  OnSideStack([&] { libcs = IsInDataSegmentHeap(p); });
  if (libcs) return FreeByLibc(p);
  HandleBadFree(BadFree::kForeign, p);
}

}  // namespace

LargeBlock TakeLarge(Runtime& r, size_t size, size_t align, Placement placement) {
  const LargeBlock block = r.heap.large().Take(size, align, placement);
  // A request larger than the whole window fails whatever is freed.
  if (block.address != nullptr || size > BytesOf(r.kernel.window())) return block;
  EmptyCaches(r);
  return r.heap.large().Take(size, align, placement);
}

bool IsFreed(Runtime& r, const void* p, SizeClass c) {
  return r.heap.blocks().StateOf(c, p) == ObjectState::kFree || r.front().Holds(c, p) ||
         r.heap.transfer().Holds(c, p);
}

bool ExpectIfSmall(void* p) {
  if (CurrentState() != RunState::kReady || Checks()) return true;
  Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return true;
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  if (c == SizeClass::kNone || c == kDividedPage) return true;
  return ExpectObject(r, p, c) && ExpectNotFreed(r, p, c);
}

void* AllocateSlow(size_t size) {
  return AllocateSlowOf(size, size > kMaxClassSize ? SizeClass::kNone : ClassOfSize(size));
}

void* AllocateSlowOf(size_t size, SizeClass c) {
  const int saved = errno;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStarting)) return EarlyAllocate(size);
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.malloc(size);
  if (STRATA_UNLIKELY(size > kMaxRequest)) return OutOfMemory();
  Runtime& r = TheRuntime();
  void* p;
  if (c == SizeClass::kNone) {
    p = TakeLarge(r, size, 1).address;
  } else {
    p = AllocateSmall(r, c);
    NoteRequested(r, c, size);
  }
  if (STRATA_UNLIKELY(p == nullptr)) return OutOfMemory();
  if (STRATA_UNLIKELY(ForkedUnseen())) RenewUnseenChild();
  TendAfterGrowth();
  errno = saved;
  return p;
}

void* AllocateAligned(size_t size, size_t align) {
  if (align <= 16) return Allocate(size < align ? align : size);
  const int saved = errno;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStarting)) return OutOfMemory();
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.memalign(align, size);
  if (size > kMaxRequest || align > kMaxAlign) return OutOfMemory();
  if (InScope()) return AllocateInScope(size, align);
  Runtime& r = TheRuntime();
  if (Checks()) return AllocateChecked(size, align);
  const bool at_end = t_state.countdown.stretch <= size;
  const StandsFor what = WhatItStandsFor();
  const bool sampled = CountBytes(size);
  if (void* p = at_end ? TakeGuarded(r, size, align, what) : nullptr)
    return sampled ? SampleTaken(r, p, size) : p;
  const SizeClass c = align <= kPageSize ? LeanClassOfAligned(size, align) : SizeClass::kNone;
  void* p = c != SizeClass::kNone ? AllocateSmall(r, c) : TakeLarge(r, size, align).address;
  if (STRATA_UNLIKELY(p == nullptr)) return OutOfMemory();
  if (c != SizeClass::kNone) NoteRequested(r, c, size);
  if (STRATA_UNLIKELY(sampled)) SampleTaken(r, p, size);
  TendAfterGrowth();
  errno = saved;
  return p;
}

void* AllocatePlaced(size_t size, Placement placement) {
  if (size > kMaxRequest || EnsureStarted() != RunState::kReady || InScope() || Checks())
    return Allocate(size);
  const bool large = size > kMaxClassSize;
  const SizeClass c = large ? SizeClass::kNone : ClassOfSize(size);
  if (const ObjectGroup group = GroupOf(placement.hotness); !large && group != ObjectGroup::kNone)
    return AllocateInGroup(size, c, group);
  if (!large && !IsPlacedApart(c, placement)) return Allocate(size);
  const int saved = errno;
  Runtime& r = TheRuntime();
  void* p =
      large ? TakeLarge(r, size, 1, placement).address : r.heap.central().TakeIn(c, placement);
  if (STRATA_UNLIKELY(p == nullptr)) return large ? OutOfMemory() : Allocate(size);
  if (!large) WipeMark(p);
  const bool sampled = CountBytes(size);
  if (!large) NoteRequested(r, c, size);
  if (STRATA_UNLIKELY(sampled)) SampleTaken(r, p, size);
  if (large) TendAfterGrowth();
  errno = saved;
  return p;
}

void* AllocateZeroed(size_t count, size_t size) {
  size_t bytes;
  if (STRATA_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return OutOfMemory();
  if (bytes <= kMaxClassSize || Checks()) {
    void* p = Allocate(bytes);
    if (STRATA_LIKELY(p != nullptr)) __builtin_memset(p, 0, bytes);
    return p;
  }
  const int saved = errno;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStarting)) return EarlyAllocate(bytes);
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.calloc(count, size);
  if (bytes > kMaxRequest) return OutOfMemory();
  if (InScope()) {
    void* p = AllocateInScope(bytes);
    return p == nullptr ? nullptr : __builtin_memset(p, 0, bytes);
  }
  Runtime& r = TheRuntime();
  const bool sampled = CountBytes(bytes);
  if (void* p = TakeGuardedZeroed(r, bytes)) return sampled ? SampleTaken(r, p, bytes) : p;
  const LargeBlock block = TakeLarge(r, bytes, 1);
  if (block.address == nullptr) return OutOfMemory();
  if (!block.zeroed) __builtin_memset(block.address, 0, bytes);
  if (STRATA_UNLIKELY(sampled)) SampleTaken(r, block.address, bytes);
  TendAfterGrowth();
  errno = saved;
  return block.address;
}

// Everything that Free could not settle with one compare.
void FreeSlow(void* p) {
  if (p == nullptr || IsEarly(p)) return;
  if (IsGuarded(p)) return FreeGuarded(p);
  const ErrnoKeeper keep;
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return g_next.free(p);
  if (state != RunState::kReady) return;
  FreeForeign(p);
}

void* AllocateRaw(size_t size, size_t align, size_t* usable) {
  Runtime& r = TheRuntime();
  const SizeClass c = align > kPageSize || size > kMaxClassSize ? SizeClass::kNone
                      : align <= 16                             ? ClassOfSize(size)
                                                                : LeanClassOfAligned(size, align);
  void* p = nullptr;
  if (c != SizeClass::kNone) {
    p = AllocateSmall(r, c);
    *usable = InfoOf(c).size;
  } else {
    p = TakeLarge(r, size, align).address;
    if (p != nullptr) *usable = r.heap.large().At(p)->block_bytes();
  }
  if (p == nullptr) return nullptr;
  if (c != SizeClass::kNone) NoteRequested(r, c, size);
  if (CountBytes(size)) SampleTaken(r, p, size);
  TendAfterGrowth();
  return p;
}

// Saves no register before it is clear that nothing else will do.
void FreeSmallSlow(void* p) {
  if (STRATA_LIKELY(t_state.cache == nullptr) && IsDivided(p)) return FreeDivided(p);
  FreeSmallOther(p);
}

void FreeSmallOther(void* p) {
  if (PushPerThread(p)) return;
  const ErrnoKeeper keep;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.free(p);
  if (STRATA_UNLIKELY(state != RunState::kReady)) return;
  if (Checks()) return FreeChecks(p);
  FreeRaw(p);
}

namespace {

// At a free on a page with a sampled object, which are frees as any other; but all of a group's
// pages are marked so, and its objects go past the slabs.
void TimeLook(Runtime& r, const void* p) {
  if (!r.front().per_cpu || GroupOfObject(r, p) != ObjectGroup::kNone || !r.mark_looks.IsTimed())
    return;
  const uint64_t begin = r.kernel.NowNs();
  const uint64_t before = r.kernel.NowNs();
  arch::ReadAndAwait(p);
  r.front().cpu.SetLooks(r.mark_looks.Note(begin, before, r.kernel.NowNs()));
}

}  // namespace

// What no cache of this thread's has taken; p lies in the heap.
void FreeRaw(void* p) {
  Runtime& r = TheRuntime();
  const SizeClass entry = r.heap.page_map().EntryOf(
      PageId((reinterpret_cast<uintptr_t>(p) - r.kernel.base()) >> kPageShift));
  const SizeClass c = WithoutSampledPage(entry);
  if (c == SizeClass::kNone) return FreeLarge(r, p, entry);
  if (c == kDividedPage) return FreeOther(p);
  if (!ExpectObject(r, p, c)) return;
  if (IsSampledPage(entry)) TimeLook(r, p);
  if (!ExpectNotFreed(r, p, c)) return;
  // Before the push: after it the block may be handed out and sampled anew.
  if (IsSampledPage(entry)) {
    SampleFreed(r, p);
    if (GiveToGroup(r, p)) return;
  }
  if (t_state.slabs == nullptr && !BindThread()) return FreeSmallPerThread(r, p, c);
  if (r.front().cpu.ops().Push(c, p) == PushResult::kPushed) return;
  if (!r.front().cpu.PushSlow(c, p)) HandleBadFree(BadFree::kDouble, p);
}

void FreeChecked(void* p) {
  if (ExpectIfSmall(p)) Free(p);
}

void CheckSizedFree(void* p, size_t size, size_t align) {
  if (p == nullptr || CurrentState() != RunState::kReady || Checks()) return;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return;  // Free reports it
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  if (c == kDividedPage) return;
  if (c == SizeClass::kNone) {
    const Span* span = r.heap.large().At(p);
    if (span == nullptr || PagesCeil(size + span->shift) == span->range().length ||
        align > kPageSize)
      return;
  } else if (PlainClass(c) == (align <= 16 ? ClassOfSize(size < align && align > 1 ? align : size)
                                           : LeanClassOfAligned(size, align))) {
    return;
  }
  DieOfWrongSize(p, size, align);
}

}  // namespace strata
