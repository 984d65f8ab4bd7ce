// The size of a block, asked for and changed: malloc_usable_size and realloc. See blocks.h.
#include <errno.h>

#include <algorithm>

#include "base/errno_keeper.h"
#include "malloc/bad_free.h"
#include "malloc/blocks.h"
#include "malloc/checked.h"
#include "malloc/fast_path.h"
#include "malloc/grouped.h"
#include "malloc/guard.h"
#include "malloc/region_calls.h"
#include "malloc/runtime.h"
#include "malloc/sampling.h"
#include "malloc/slow_path.h"
#include "malloc/stand_down.h"

namespace strata {
namespace {

STRATA_NOINLINE size_t UsableSizeSlow(void* p) {
  if (p == nullptr) return 0;
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return g_next.usable_size(p);
  if (state != RunState::kReady) return 0;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (Checks() && offset < r.kernel.mapped_end()) {
    if (const size_t size = SizeChecked(p)) return size;
  }
  if (offset >= r.kernel.mapped_end()) return IsGuarded(p) ? SizeOfGuarded(p) : 0;
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  if (const Span* span = c == kDividedPage ? nullptr : r.heap.large().At(p))
    return span->block_bytes();
  strata_reap* reap = ReapOfBlock(p);
  return reap == nullptr ? 0 : LiveSizeInReap(reap, p);
}

}  // namespace

// Redis asks for every block that it allocates or frees. A null pointer lies outside the heap.
size_t UsableSize(void* p) {
  if (STRATA_LIKELY(CurrentState() == RunState::kReady && !Checks())) {
    const Runtime& r = TheRuntime();
    const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
    if (STRATA_LIKELY(offset < r.kernel.mapped_end())) {
      const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
      if (STRATA_LIKELY(c != SizeClass::kNone && c != kDividedPage)) return InfoOf(c).size;
    }
  }
  return UsableSizeSlow(p);
}

namespace {

// In the group of the block that it takes the place of.
void* AllocateLike(const Runtime& r, const void* from, size_t size) {
  const ObjectGroup group = GroupOfObject(r, from);
  if (STRATA_UNLIKELY(group != ObjectGroup::kNone) && size <= kMaxClassSize) {
    if (void* p = TakeInGroup(size, ClassOfSize(size), group)) return p;
  }
  return AllocateUncounted(size);
}

void* MoveTo(Runtime& r, void* from, size_t old_size, size_t size) {
  void* to = AllocateLike(r, from, size);
  if (to == nullptr) return nullptr;
  __builtin_memcpy(to, from, size < old_size ? size : old_size);
  const size_t counted = size > kMaxClassSize ? size : InfoOf(ClassOfSize(size)).size;
  Resized(r, from, to, old_size, counted, size);
  Free(from);
  return to;
}

void TendKeepingErrno() {
  const ErrnoKeeper keep;
  TendAfterGrowth();
}

// A large block that grows step by step gets an eighth more than asked, so that the copies add up
// to a constant factor of its final size. The extra is address space until it is touched.
void* GrowLarge(Runtime& r, Span* span, size_t old_size, void* p, size_t size) {
  const size_t old_requested = r.heap.large().RequestedOf(span);
  if (r.heap.large().Resize(span, size)) {
    Resized(r, p, p, old_requested, size, size);
    TendKeepingErrno();
    return p;
  }
  // Can't wrap: size is at most PTRDIFF_MAX.
  const size_t generous = size + std::min(size / 8, GrowthBetweenLooks());
  LargeBlock block = r.heap.large().TakeLike(*span, generous);
  if (block.address == nullptr && size <= BytesOf(r.kernel.window())) {
    EmptyCaches(r);
    block = r.heap.large().TakeLike(*span, size);
  }
  if (block.address == nullptr) return OutOfMemory();
  Span* grown = r.heap.large().At(block.address);
  r.heap.large().SetRequested(grown, size);
  Resized(r, p, block.address, old_requested, size, size);
  r.heap.large().GiveMoved(span, grown, old_size);
  TendKeepingErrno();
  return block.address;
}

void* ShrinkLarge(Runtime& r, Span* span, void* p, size_t size) {
  const size_t old_requested = r.heap.large().RequestedOf(span);
  r.heap.large().Resize(span, size);  // giving the tail back can't fail
  Resized(r, p, p, old_requested, size, size);
  return p;
}

}  // namespace

void* MoveByCopy(void* from, size_t old_size, size_t size) {
  void* to = Allocate(size);
  if (to == nullptr) return nullptr;
  __builtin_memcpy(to, from, size < old_size ? size : old_size);
  Free(from);
  return to;
}

namespace {

// A block keeps its place while it fits and at least three quarters of it stay in use, or a new one
// would be no smaller, as for 17 to 23 bytes in one of 32.
bool MayStay(size_t old_size, size_t size) {
  if (size - 1 >= old_size) return false;  // of none, too
  if (size >= old_size - old_size / 4) return true;
  return size <= kMaxClassSize && InfoOf(ClassOfSize(size)).size == old_size;
}

// The class of an object that may start at p, with no sample on its page; kNone for anything else.
// Of such an object nothing is to be noted but the bytes it grows by.
SizeClass UnsampledClassOf(const void* p) {
  if (STRATA_UNLIKELY(CurrentState() != RunState::kReady)) return SizeClass::kNone;
  const Runtime& r = TheRuntime();
  const auto address = reinterpret_cast<uintptr_t>(p);
  const size_t offset = address - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return SizeClass::kNone;
  const PageId page(offset >> kPageShift);
  const SizeClass c = r.heap.page_map().EntryOf(page);
  const bool is_object = Raw(c) != 0 && Raw(c) < kNumClasses &&
                         IsObjectStart(r.heap.page_map().entries()[page.raw()], c, address);
  return is_object ? c : SizeClass::kNone;
}

// From one class to another, for a thread with slabs: as a malloc and a free, but only what it
// grows by is counted. What was predicted to last still is. Into the next class, not the one after:
// that halves the copies of strings that grow step by step, but Redis's peak rose from 88 to 94 MiB
// (redis-benchmark -d 200 -t set,lpush,sadd,hset,zadd) for no less CPU time.
void* MoveUnsampled(void* from, SizeClass c, size_t size) {
  const size_t old_size = InfoOf(c).size;
  const SizeClass plain = ClassOfSize(size);
  void* to = AllocateOf(size, IsLasting(c) ? LastingClass(plain) : plain);
  if (STRATA_UNLIKELY(to == nullptr)) return nullptr;
  __builtin_memcpy(to, from, size < old_size ? size : old_size);
  const size_t counted = InfoOf(plain).size;
  if (counted > old_size) {
    const size_t stretch = t_state.countdown.stretch;
    if (STRATA_UNLIKELY(stretch <= counted - old_size)) {
      Resized(TheRuntime(), from, to, old_size, counted, size);
    } else {
      t_state.countdown.stretch = stretch - (counted - old_size);
    }
  }
  Free(from);
  return to;
}

// Out of line: most programs never come here, and what they run lies together.
STRATA_NOINLINE void* ReallocateOther(void* p, size_t size) {
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) {
    if (!IsEarly(p)) return g_next.realloc(p, size);
  }
  if (!ExpectIfSmall(p)) return OutOfMemory();
  if (STRATA_UNLIKELY(IsGuarded(p)))
    return size > kMaxRequest ? OutOfMemory() : ReallocateGuarded(p, size);
  if (size == 0) {
    Free(p);
    return nullptr;
  }
  if (size > kMaxRequest) return OutOfMemory();
  if (strata_reap* reap = ReapOfBlock(p); STRATA_UNLIKELY(reap != nullptr))
    return ReallocateInReap(reap, p, size);
  const size_t old_size = IsEarly(p) ? EarlySize(p, size) : UsableSize(p);
  if (old_size == 0) {
    const bool ours = reinterpret_cast<uintptr_t>(p) - TheRuntime().kernel.base() <
                      TheRuntime().kernel.mapped_end();
    HandleBadFree(ours ? BadFree::kNotLive : BadFree::kForeign, p);
    return OutOfMemory();
  }
  // What a block grows by while the thread is in a scope is the scope's.
  if (InScope() && size > old_size) return MoveByCopy(p, old_size, size);
  Runtime& r = TheRuntime();
  if (old_size > kMaxClassSize && size > kMaxClassSize) {
    Span* span = r.heap.large().At(p);
    if (span != nullptr) {
      if (size > old_size) return GrowLarge(r, span, old_size, p, size);
      if (size <= old_size - old_size / 8) return ShrinkLarge(r, span, p, size);
      const size_t old_requested = r.heap.large().RequestedOf(span);
      r.heap.large().SetRequested(span, size);
      Resized(r, p, p, old_requested, size, size);
      return p;
    }
  }
  if (MayStay(old_size, size) && !IsEarly(p)) {
    Resized(r, p, p, old_size, old_size, size);
    return p;
  }
  return MoveTo(r, p, old_size, size);
}

}  // namespace

void* Reallocate(void* p, size_t size) {
  if (p == nullptr) return Allocate(size);
  if (Checks() && !IsEarly(p) && !IsGuarded(p)) return ReallocateChecked(p, size);
  // The commonest cases, of strings and vectors that grow by little.
  if (const SizeClass c = UnsampledClassOf(p); c != SizeClass::kNone) {
    if (STRATA_UNLIKELY(!ExpectNotFreed(TheRuntime(), p, c))) return OutOfMemory();
    const size_t old_size = InfoOf(c).size;
    if (MayStay(old_size, size)) return p;
    if (size - 1 < kMaxClassSize && t_state.slabs != nullptr && !InScope() &&
        TheRuntime().heap.blocks().StateOf(c, p) == ObjectState::kGivenOut)
      return MoveUnsampled(p, c, size);
  }
  return ReallocateOther(p, size);
}

}  // namespace strata
