// What the fast path hands over: a thread's first call, cache misses, large blocks, bad pointers,
// the per-thread mode and the stand-down. See fast_path.h.
#include <errno.h>

#include "base/errno_keeper.h"
#include "malloc/background.h"
#include "malloc/bad_free.h"
#include "malloc/blocks.h"
#include "malloc/fast_path.h"
#include "malloc/limits.h"
#include "malloc/reaps.h"
#include "malloc/release_now.h"
#include "malloc/runtime.h"
#include "malloc/sampling.h"
#include "malloc/scopes.h"
#include "malloc/stand_down.h"
#include "os/side_stack.h"

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
  ProcessThreadCache* cache = CacheOfThisThread();
  if (STRATA_UNLIKELY(cache == nullptr)) {
    void* one[1];
    return r.transfer.Take(c, one, 1) == 1 ? one[0] : nullptr;
  }
  if (void* p = cache->Pop(c)) return p;
  return cache->PopSlow(c, r.transfer);
}

void* TrySmall(Runtime& r, SizeClass c) {
  if (t_state.slabs == nullptr && !BindThread()) return AllocateSmallPerThread(r, c);
  if (void* p = r.cpu.ops().Pop(c)) return p;
  return r.cpu.PopSlow(c);
}

// Before malloc fails, what lies free in the caches of other classes and CPUs goes to where any
// request can use it.
void EmptyCaches(Runtime& r) {
  OnSideStack([&r] {
    EmptyFrontEnd(r);
    r.heap.EmptyCaches();
  });
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

// Reports a pointer to a span of the class at which no object begins, or one that is free for sure.
bool ExpectObject(const Runtime& r, void* p, SizeClass c) {
  const ObjectState state = r.heap.StateOf(c, p);
  if (STRATA_LIKELY(state == ObjectState::kGivenOut)) return true;
  HandleBadFree(state == ObjectState::kFree ? BadFree::kDouble : BadFree::kMisaligned, p);
  return false;
}

// The same of any pointer; what lies in no span is left to others.
bool ExpectIfSmall(void* p) {
  if (CurrentState() != RunState::kReady) return true;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return true;
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  return c == SizeClass::kNone || c == kReapPage || ExpectObject(r, p, c);
}

void FreeSmallPerThread(Runtime& r, void* p, SizeClass c) {
  ProcessThreadCache* cache = CacheOfThisThread();
  const size_t limit = r.thread_cache_limit.load(std::memory_order_relaxed);
  if (STRATA_UNLIKELY(cache == nullptr)) {
    r.transfer.Give(c, &p, 1);
  } else if (STRATA_UNLIKELY(cache->IsNewest(c, p) ||
                             !(cache->HasRoom(c, limit)
                                   ? cache->Push(c, p)
                                   : cache->PushSlow(c, p, r.transfer, limit)))) {
    HandleBadFree(BadFree::kDouble, p);
  }
}

// No block of the heap begins at p: it may be one of a reap's.
void FreeOther(void* p) {
  if (!FreeReapBlock(p)) HandleBadFree(BadFree::kNotLive, p);
}

void FreeLarge(Runtime& r, void* p, SizeClass entry) {
  Span* span = r.heap.LargeAt(p);
  if (STRATA_UNLIKELY(span == nullptr)) return FreeOther(p);
  if (STRATA_UNLIKELY(IsSampledPage(entry))) SampleFreed(r, p);
  r.heap.GiveLarge(span);
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

void* AllocateCounted(size_t size) {
  if (STRATA_UNLIKELY(EnsureStarted() != RunState::kReady)) return AllocateSlow(size);
  if (InScope()) return AllocateInScope(size);
  const bool sampled = CountBytesSlow(size);
  void* p = AllocateUncounted(size);
  if (STRATA_UNLIKELY(sampled) && p != nullptr) SampleTaken(TheRuntime(), p, size);
  return p;
}

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
  TendBackground();
  RelieveMemoryIfNeeded();
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
  const bool sampled = CountBytes(size);
  const SizeClass c = align <= kPageSize ? ClassOfAligned(size, align) : SizeClass::kNone;
  void* p = c != SizeClass::kNone ? AllocateSmall(r, c) : TakeLarge(r, size, align).address;
  if (STRATA_UNLIKELY(p == nullptr)) return OutOfMemory();
  if (c != SizeClass::kNone) NoteAsked(r, c, size);
  if (STRATA_UNLIKELY(sampled)) SampleTaken(r, p, size);
  TendBackground();
  RelieveMemoryIfNeeded();
  errno = saved;
  return p;
}

void* AllocateLongLived(size_t size) {
  if (size > kMaxClassSize || EnsureStarted() != RunState::kReady) return Allocate(size);
  const SizeClass c = ClassOfSize(size);
  if (InfoOf(c).objects != 1) return Allocate(size);
  const int saved = errno;
  Runtime& r = TheRuntime();
  void* p = r.heap.TakeLongLived(c);
  if (STRATA_UNLIKELY(p == nullptr)) return Allocate(size);
  const bool sampled = CountBytes(size);
  NoteAsked(r, c, size);
  if (STRATA_UNLIKELY(sampled)) SampleTaken(r, p, size);
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
  if (InScope()) {
    void* p = AllocateInScope(bytes);
    return p == nullptr ? nullptr : __builtin_memset(p, 0, bytes);
  }
  const bool sampled = CountBytes(bytes);
  const LargeBlock block = TakeLarge(TheRuntime(), bytes, 1);
  if (block.address == nullptr) return OutOfMemory();
  if (!block.zeroed) __builtin_memset(block.address, 0, bytes);
  if (STRATA_UNLIKELY(sampled)) SampleTaken(TheRuntime(), block.address, bytes);
  TendBackground();
  RelieveMemoryIfNeeded();
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

void FreeSmallSlow(void* p) {
  const ErrnoKeeper keep;
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) return g_next.free(p);
  if (STRATA_UNLIKELY(state != RunState::kReady)) return;
  Runtime& r = TheRuntime();
  const SizeClass entry = r.heap.page_map().EntryOf(
      PageId((reinterpret_cast<uintptr_t>(p) - r.kernel.base()) >> kPageShift));
  const SizeClass c = WithoutSampledPage(entry);
  if (c == SizeClass::kNone) return FreeLarge(r, p, entry);
  if (c == kReapPage) return FreeOther(p);
  if (!ExpectObject(r, p, c)) return;
  // Before the push: after it the block may be handed out and sampled anew.
  if (IsSampledPage(entry)) SampleFreed(r, p);
  if (t_state.slabs == nullptr && !BindThread()) return FreeSmallPerThread(r, p, c);
  if (r.cpu.ops().Push(c, p) == PushResult::kPushed) return;
  if (!r.cpu.PushSlow(c, p)) HandleBadFree(BadFree::kDouble, p);
}

void FreeChecked(void* p) {
  if (ExpectIfSmall(p)) Free(p);
}

void CheckSizedFree(void* p, size_t size, size_t align) {
  if (p == nullptr || CurrentState() != RunState::kReady) return;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return;  // Free reports it
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  if (c == kReapPage) return;
  if (c == SizeClass::kNone) {
    const Span* span = r.heap.LargeAt(p);
    if (span == nullptr || PagesCeil(size) == span->range().length || align > kPageSize) return;
  } else if (c == (align <= 16 ? ClassOfSize(size < align && align > 1 ? align : size)
                               : ClassOfAligned(size, align))) {
    return;
  }
  DieOfWrongSize(p, size, align);
}

namespace {

STRATA_NOINLINE size_t UsableSizeSlow(void* p) {
  if (p == nullptr) return 0;
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return g_next.usable_size(p);
  if (state != RunState::kReady) return 0;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return 0;
  const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
  if (const Span* span = c == kReapPage ? nullptr : r.heap.LargeAt(p))
    return BytesOf(span->range().length);
  strata_reap* reap = ReapOfBlock(p);
  return reap == nullptr ? 0 : LiveSizeInReap(reap, p);
}

}  // namespace

// Redis asks for every block that it allocates or frees. A null pointer lies outside the heap.
size_t UsableSize(void* p) {
  if (STRATA_LIKELY(CurrentState() == RunState::kReady)) {
    const Runtime& r = TheRuntime();
    const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
    if (STRATA_LIKELY(offset < r.kernel.mapped_end())) {
      const SizeClass c = r.heap.page_map().ClassOf(PageId(offset >> kPageShift));
      if (STRATA_LIKELY(c != SizeClass::kNone && c != kReapPage)) return InfoOf(c).size;
    }
  }
  return UsableSizeSlow(p);
}

namespace {

void* MoveTo(Runtime& r, void* from, size_t old_size, size_t size) {
  void* to = AllocateUncounted(size);
  if (to == nullptr) return nullptr;
  __builtin_memcpy(to, from, size < old_size ? size : old_size);
  const size_t counted = size > kMaxClassSize ? size : InfoOf(ClassOfSize(size)).size;
  Resized(r, from, to, old_size, counted, size);
  Free(from);
  return to;
}

// A block of a scope's, or one that grows while the thread is in a scope, which has what is new.
void* MoveByCopy(void* from, size_t old_size, size_t size) {
  void* to = Allocate(size);
  if (to == nullptr) return nullptr;
  __builtin_memcpy(to, from, size < old_size ? size : old_size);
  Free(from);
  return to;
}

void* ReallocateInReap(strata_reap* reap, void* p, size_t size) {
  if (!ExpectShared(reap, p)) return nullptr;
  if (!ExpectBlock(reap, p)) {
    errno = EINVAL;
    return nullptr;
  }
  if (ResizeInReap(reap, p, size)) return p;
  // A scope's goes where the thread is now.
  return reap->scope == nullptr ? MoveInReap(reap, p, size)
                                : MoveByCopy(p, SizeInReap(reap, p), size);
}

// A large block that grows step by step gets an eighth more than asked, so that the copies add up
// to a constant factor of its final size. The extra is address space until it is touched.
void* GrowLarge(Runtime& r, Span* span, size_t old_size, void* p, size_t size) {
  const size_t old_asked = r.heap.AskedOf(span);
  if (r.heap.ResizeLarge(span, size)) {
    Resized(r, p, p, old_asked, size, size);
    return p;
  }
  const size_t generous = size + size / 8;  // can't wrap: size is at most PTRDIFF_MAX
  LargeBlock block = r.heap.TakeLarge(generous, 1);
  if (block.address == nullptr) block = TakeLarge(r, size, 1);
  if (block.address == nullptr) return OutOfMemory();
  __builtin_memcpy(block.address, p, old_size);
  r.heap.SetAsked(r.heap.LargeAt(block.address), size);
  Resized(r, p, block.address, old_asked, size, size);
  r.heap.GiveLarge(span);
  return block.address;
}

void* ShrinkLarge(Runtime& r, Span* span, void* p, size_t size) {
  const size_t old_asked = r.heap.AskedOf(span);
  r.heap.ResizeLarge(span, size);  // giving the tail back can't fail
  Resized(r, p, p, old_asked, size, size);
  return p;
}

}  // namespace

void* Reallocate(void* p, size_t size) {
  if (p == nullptr) return Allocate(size);
  const RunState state = EnsureStarted();
  if (STRATA_UNLIKELY(state == RunState::kStoodDown)) {
    if (!IsEarly(p)) return g_next.realloc(p, size);
  }
  if (!ExpectIfSmall(p)) return OutOfMemory();
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
  if (InScope() && size > old_size) return MoveByCopy(p, old_size, size);
  Runtime& r = TheRuntime();
  if (old_size > kMaxClassSize && size > kMaxClassSize) {
    Span* span = r.heap.LargeAt(p);
    if (span != nullptr) {
      if (size > old_size) return GrowLarge(r, span, old_size, p, size);
      if (size <= old_size - old_size / 8) return ShrinkLarge(r, span, p, size);
      const size_t old_asked = r.heap.AskedOf(span);
      r.heap.SetAsked(span, size);
      Resized(r, p, p, old_asked, size, size);
      return p;
    }
  }
  // In place while it fits and at least three quarters of it stay in use.
  if (size <= old_size && size >= old_size - old_size / 4 && !IsEarly(p)) {
    Resized(r, p, p, old_size, old_size, size);
    return p;
  }
  return MoveTo(r, p, old_size, size);
}

}  // namespace strata
