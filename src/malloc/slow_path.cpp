// What the fast path hands over: a thread's first call, cache misses, large blocks, bad pointers,
// the per-thread mode and the stand-down. See fast_path.h.
#include <errno.h>

#include "base/errno_keeper.h"
#include "malloc/background.h"
#include "malloc/bad_free.h"
#include "malloc/blocks.h"
#include "malloc/fast_path.h"
#include "malloc/runtime.h"
#include "malloc/stand_down.h"

namespace strata {
namespace {

void* OutOfMemory() {
  errno = ENOMEM;
  return nullptr;
}

// Larger requests can't be told from a negative number by the program's pointer arithmetic.
constexpr size_t kMaxRequest = PTRDIFF_MAX;
// The page heap aligns to no more; the kernel's own largest page is as big.
constexpr size_t kMaxAlign = size_t{1} << 30;

void* AllocateSmallPerThread(Runtime& r, SizeClass c) {
  ThreadCache* cache = CacheOfThisThread();
  if (STRATA_UNLIKELY(cache == nullptr)) {
    void* one[1];
    return r.heap.transfer().Take(c, one, 1) == 1 ? one[0] : nullptr;
  }
  if (void* p = cache->Pop(c)) return p;
  return cache->PopSlow(c, r.heap.transfer());
}

void* TrySmall(Runtime& r, SizeClass c) {
  if (t_state.slabs == nullptr && !BindThread()) return AllocateSmallPerThread(r, c);
  if (void* p = r.cpu.ops().Pop(c)) return p;
  return r.cpu.PopSlow(c);
}

// Before malloc fails, what lies free in the caches of other classes and CPUs goes to where any
// request can use it.
void EmptyCaches(Runtime& r) {
  if (ThreadCache* cache = t_state.cache) cache->Flush(r.heap.transfer());
  if (r.per_cpu) r.cpu.DrainAll();
  r.heap.EmptyCaches();
}

void* AllocateSmall(Runtime& r, SizeClass c) {
  if (void* p = TrySmall(r, c)) return p;
  EmptyCaches(r);
  return TrySmall(r, c);
}

LargeBlock TakeLarge(Runtime& r, size_t size, size_t align) {
  const LargeBlock block = r.heap.TakeLarge(size, align);
  // A request larger than the whole window fails whatever is freed.
  if (block.address != nullptr || size > BytesOf(r.kernel.window())) return block;
  EmptyCaches(r);
  return r.heap.TakeLarge(size, align);
}

void NoteAsked(Runtime& r, SizeClass c, size_t size) {
  auto& sample = r.asked[Raw(c)];
  sample.bytes.store(sample.bytes.load(std::memory_order_relaxed) + size,
                     std::memory_order_relaxed);
  sample.count.store(sample.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Whether p lies in a span but is no object's start. A sized delete may come with a wrong class:
// then p's own span says otherwise.
bool IsInsideBlock(const Runtime& r, const void* p, SizeClass c) {
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return true;
  const Span* span = r.heap.page_map().SpanOf(PageId(offset >> kPageShift));
  if (span == nullptr || span->size_class != c) return true;
  const size_t in_span = offset - span->start_offset();
  return IndexOfOffset(InfoOf(c), in_span) * InfoOf(c).size != in_span;
}

void FreeSmallPerThread(Runtime& r, void* p, SizeClass c) {
  ThreadCache* cache = CacheOfThisThread();
  if (STRATA_UNLIKELY(cache == nullptr)) {
    r.heap.transfer().Give(c, &p, 1);
  } else if (STRATA_UNLIKELY(cache->IsNewest(c, p))) {
    HandleBadFree(BadFree::kDouble, p);
  } else if (STRATA_LIKELY(cache->HasRoom(c, r.thread_cache_limit))) {
    cache->Push(c, p);
  } else {
    cache->PushSlow(c, p, r.heap.transfer(), r.thread_cache_limit);
  }
}

void FreeLarge(Runtime& r, void* p) {
  Span* span = r.heap.LargeAt(p);
  if (STRATA_UNLIKELY(span == nullptr)) return HandleBadFree(BadFree::kNotLive, p);
  r.heap.GiveLarge(span);
}

// A block of libc's own heap, from before this library took over malloc (it was loaded late, with
// its symbols made global), goes back to libc. Anything else that is not ours is an error.
void FreeForeign(void* p) {
  if (IsInDataSegmentHeap(p)) return FreeByLibc(p);
  HandleBadFree(BadFree::kForeign, p);
}

}  // namespace

void* AllocateSlow(size_t size) {
  const int saved = errno;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStarting)) return EarlyAllocate(size);
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.malloc(size);
  if (STRATA_UNLIKELY(size > kMaxRequest)) return OutOfMemory();
  Runtime& r = TheRuntime();
  void* p;
  if (size > kMaxClassSize) {
    p = TakeLarge(r, size, 1).address;
  } else {
    const SizeClass c = ClassOfSize(size);
    p = AllocateSmall(r, c);
    NoteAsked(r, c, size);
  }
  if (STRATA_UNLIKELY(p == nullptr)) return OutOfMemory();
  StartBackgroundIfNeeded();
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
  Runtime& r = TheRuntime();
  const SizeClass c = align <= kPageSize ? ClassOfAligned(size, align) : SizeClass::kNone;
  void* p = c != SizeClass::kNone ? AllocateSmall(r, c) : TakeLarge(r, size, align).address;
  if (STRATA_UNLIKELY(p == nullptr)) return OutOfMemory();
  if (c != SizeClass::kNone) NoteAsked(r, c, size);
  StartBackgroundIfNeeded();
  errno = saved;
  return p;
}

void* AllocateZeroed(size_t count, size_t size) {
  size_t bytes;
  if (STRATA_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return OutOfMemory();
  if (bytes <= kMaxClassSize) {
    void* p = Allocate(bytes);
    if (STRATA_LIKELY(p != nullptr)) __builtin_memset(p, 0, bytes);
    return p;
  }
  const int saved = errno;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStarting)) return EarlyAllocate(bytes);
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.calloc(count, size);
  if (bytes > kMaxRequest) return OutOfMemory();
  const LargeBlock block = TakeLarge(TheRuntime(), bytes, 1);
  if (block.address == nullptr) return OutOfMemory();
  if (!block.zeroed) __builtin_memset(block.address, 0, bytes);
  StartBackgroundIfNeeded();
  errno = saved;
  return block.address;
}

// Everything that Free could not settle with one compare.
void FreeSlow(void* p) {
  if (p == nullptr || IsEarly(p)) return;
  const ErrnoKeeper keep;
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return g_next.free(p);
  if (state != RunState::kReady) return;
  FreeForeign(p);
}

void FreeSmallSlow(void* p, SizeClass c) {
  const ErrnoKeeper keep;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.free(p);
  if (STRATA_UNLIKELY(state != RunState::kReady)) return;
  Runtime& r = TheRuntime();
  if (c == SizeClass::kNone) return FreeLarge(r, p);
  if (IsInsideBlock(r, p, c)) return HandleBadFree(BadFree::kMisaligned, p);
  if (t_state.slabs == nullptr && !BindThread()) return FreeSmallPerThread(r, p, c);
  if (r.cpu.ops().Push(c, p) == PushResult::kPushed) return;
  if (!r.cpu.PushSlow(c, p)) HandleBadFree(BadFree::kDouble, p);
}

void CheckSizedFree(void* p, size_t size, size_t align) {
  if (p == nullptr || CurrentState() != RunState::kReady) return;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return;  // Free reports it
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  if (c == SizeClass::kNone) {
    const Span* span = r.heap.LargeAt(p);
    if (span == nullptr || PagesCeil(size) == span->range().length || align > kPageSize) return;
  } else if (c == (align <= 16 ? ClassOfSize(size < align && align > 1 ? align : size)
                               : ClassOfAligned(size, align))) {
    return;
  }
  DieOfWrongSize(p, size, align);
}

size_t UsableSize(void* p) {
  if (p == nullptr) return 0;
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return g_next.usable_size(p);
  if (state != RunState::kReady) return 0;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return 0;
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  if (c != SizeClass::kNone) return InfoOf(c).size;
  const Span* span = r.heap.LargeAt(p);
  return span == nullptr ? 0 : BytesOf(span->range().length);
}

namespace {

void* MoveTo(void* from, size_t keep, size_t size) {
  void* to = Allocate(size);
  if (to == nullptr) return nullptr;
  __builtin_memcpy(to, from, keep);
  Free(from);
  return to;
}

// A large block that grows step by step gets an eighth more than asked, so that the copies add up
// to a constant factor of its final size. The extra is address space until it is touched.
void* GrowLarge(Runtime& r, Span* span, size_t old_size, void* p, size_t size) {
  if (r.heap.ResizeLarge(span, size)) return p;
  const size_t generous = size + size / 8;  // can't wrap: size is at most PTRDIFF_MAX
  LargeBlock block = r.heap.TakeLarge(generous, 1);
  if (block.address == nullptr) block = TakeLarge(r, size, 1);
  if (block.address == nullptr) return OutOfMemory();
  __builtin_memcpy(block.address, p, old_size);
  r.heap.SetAsked(r.heap.LargeAt(block.address), size);
  r.heap.GiveLarge(span);
  return block.address;
}

void* ShrinkLarge(Runtime& r, Span* span, void* p, size_t size) {
  r.heap.ResizeLarge(span, size);  // giving the tail back can't fail
  return p;
}

}  // namespace

void* Reallocate(void* p, size_t size) {
  if (p == nullptr) return Allocate(size);
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) {
    if (!IsEarly(p)) return g_next.realloc(p, size);
  }
  if (size == 0) {
    Free(p);
    return nullptr;
  }
  if (size > kMaxRequest) return OutOfMemory();
  const size_t old_size = IsEarly(p) ? EarlySize(p, size) : UsableSize(p);
  if (old_size == 0) {
    HandleBadFree(BadFree::kForeign, p);
    return OutOfMemory();
  }
  Runtime& r = TheRuntime();
  if (old_size > kMaxClassSize && size > kMaxClassSize) {
    Span* span = r.heap.LargeAt(p);
    if (span != nullptr) {
      if (size > old_size) return GrowLarge(r, span, old_size, p, size);
      if (size <= old_size - old_size / 8) return ShrinkLarge(r, span, p, size);
      r.heap.SetAsked(span, size);
      return p;
    }
  }
  // In place while it fits and at least three quarters of it stay in use.
  if (size <= old_size && size >= old_size - old_size / 4 && !IsEarly(p)) return p;
  return MoveTo(p, size < old_size ? size : old_size, size);
}

}  // namespace strata
