// The reaps of include/strata/reap.h: the Reap layer over chunks of the process heap, with handles
// that stay readable when their reap is gone, nesting, and blocks that are traced to their reap by
// the page map. Sits in malloc.
#include "malloc/reap_api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/message.h"
#include "malloc/fast_path.h"
#include "malloc/runtime.h"
#include "strata/layers/locked.h"
#include "strata/layers/reap.h"
#include "strata/reap.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata::reap_internal {

struct ProcessChunks {
  static constexpr size_t alignment = 16;
  static constexpr bool thread_safe = true;
  void* allocate(size_t size) { return Allocate(size); }
  void deallocate(void* p, size_t) { Free(p); }
};

// Chunks stay below the size of large blocks, whose pages past the first are not in the page map.
using ReapHeap = layers::Stack<layers::Reap<(8 << 10), (128 << 10)>, ProcessChunks>;

}  // namespace strata::reap_internal

// Records are never unmapped: a stale handle reads kGone, or finds another reap.
struct strata_reap {
  enum State : uint64_t { kLive = 0x7265617020697321, kGone = 0x67656e7420697421 };

  uint64_t state = kLive;
  bool shared = false;
  strata::layers::FutexLock lock;  // of a shared reap: everything in `heap`
  // The tree; under g_tree.
  strata_reap* parent = nullptr;
  strata_reap* first_child = nullptr;
  strata_reap* next = nullptr;
  strata_reap* previous = nullptr;
  // All shared reaps; under g_tree.
  strata_reap* next_shared = nullptr;
  strata_reap* previous_shared = nullptr;
  strata::reap_internal::ReapHeap heap;
};

namespace strata {
namespace {

using reap_internal::ReapHeap;

// The reaps' records and how they nest. Taken before a reap's own lock.
Lock g_tree{LockRank::kControl};
strata_reap* g_free STRATA_GUARDED_BY(g_tree) = nullptr;  // records of reaps that are gone
strata_reap* g_shared STRATA_GUARDED_BY(g_tree) = nullptr;

class Hold {
 public:
  explicit Hold(strata_reap* reap) : reap_(reap->shared ? reap : nullptr) {
    if (reap_ != nullptr) reap_->lock.lock();
  }
  ~Hold() {
    if (reap_ != nullptr) reap_->lock.unlock();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  strata_reap* reap_;
};

void Misuse(const char* what, const void* p) {
  const bool ready = CurrentState() == RunState::kReady;
  const bool fatal = !ready || TheRuntime().options.on_error == OnError::kAbort;
  Message().Text(what).Hex(reinterpret_cast<uintptr_t>(p)).Text(fatal ? "" : " (ignored)").Send();
  if (fatal) abort();
}

bool IsLive(const strata_reap* reap) {
  return reinterpret_cast<uintptr_t>(reap) % alignof(strata_reap) == 0 &&
         reap->state == strata_reap::kLive;
}

bool Expect(const strata_reap* reap) {
  if (STRATA_LIKELY(reap != nullptr && IsLive(reap))) return true;
  Misuse("not a reap, or one that is gone: ", reap);
  errno = EINVAL;
  return false;
}

// Where the process heap's block begins that p lies in; null for other memory. Of large blocks only
// the first page is known.
const void* BlockAround(const void* p) {
  if (CurrentState() != RunState::kReady) return nullptr;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return nullptr;
  const Span* span = r.heap.page_map().SpanOf(PageId(offset >> kPageShift));
  if (span == nullptr) return nullptr;
  size_t start = span->start_offset();
  size_t size = BytesOf(span->range().length);
  if (span->state != SpanState::kLarge) {
    const ClassInfo& info = InfoOf(span->size_class);
    start += IndexOfOffset(info, offset - start) * info.size;
    size = info.size;
  }
  if (size < ReapHeap::header_bytes) return nullptr;
  return reinterpret_cast<const void*>(r.kernel.base() + start);
}

strata_reap* Find(const void* p) {
  const void* block = BlockAround(p);
  if (block == nullptr) return nullptr;
  auto* reap = static_cast<strata_reap*>(ReapHeap::owner_at(block));
  return reap != nullptr && IsLive(reap) ? reap : nullptr;
}

// Of a block aligned to more than a page, which may begin on a later page of a large block: its own
// word says where that begins, and is believed if a reap's chunk does begin there.
strata_reap* FindAligned(void* p) {
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  auto* block = layers::TaggedBlock::Of(p);
  if (offset >= r.kernel.mapped_end() || !block->apart()) return nullptr;
  const void* start = static_cast<char*>(p) - block->apart_offset();
  return BlockAround(start) == start ? Find(start) : nullptr;
}

bool ExpectBlock(strata_reap* reap, void* p) {
  if (STRATA_UNLIKELY(CurrentState() == RunState::kStoodDown)) return true;
  const bool misaligned = reinterpret_cast<uintptr_t>(p) % ReapHeap::alignment != 0;
  if (STRATA_UNLIKELY(misaligned || (Find(p) != reap && FindAligned(p) != reap))) {
    Misuse("a block that is not of this reap: ", p);
    return false;
  }
  if (STRATA_UNLIKELY(!ReapHeap::is_live(p))) {
    Misuse("a reap's block freed twice: ", p);
    return false;
  }
  return true;
}

void* OrNoMemory(void* p) {
  if (STRATA_UNLIKELY(p == nullptr)) errno = ENOMEM;
  return p;
}

void Link(strata_reap* reap, strata_reap* parent) STRATA_REQUIRES(g_tree) {
  reap->parent = parent;
  if (parent == nullptr) return;
  reap->previous = nullptr;
  reap->next = parent->first_child;
  if (reap->next != nullptr) reap->next->previous = reap;
  parent->first_child = reap;
}

void Unlink(strata_reap* reap) STRATA_REQUIRES(g_tree) {
  if (reap->parent == nullptr) return;
  if (reap->next != nullptr) reap->next->previous = reap->previous;
  (reap->previous != nullptr ? reap->previous->next : reap->parent->first_child) = reap->next;
  reap->parent = nullptr;
}

void UnlinkShared(strata_reap* reap) STRATA_REQUIRES(g_tree) {
  if (!reap->shared) return;
  if (reap->next_shared != nullptr) reap->next_shared->previous_shared = reap->previous_shared;
  (reap->previous_shared != nullptr ? reap->previous_shared->next_shared : g_shared) =
      reap->next_shared;
}

strata_reap* NewRecord() STRATA_EXCLUDES(g_tree) {
  {
    LockHolder hold(g_tree);
    if (strata_reap* reap = g_free) {
      g_free = reap->next;
      return reap;
    }
  }
  // Without the lock: a miss may start the background thread, and the program's pthread_create may
  // be one that makes reaps.
  return static_cast<strata_reap*>(Allocate(sizeof(strata_reap)));
}

void EndOne(strata_reap* reap) STRATA_REQUIRES(g_tree) {
  Unlink(reap);
  UnlinkShared(reap);
  reap->heap.~ReapHeap();  // the next Create makes the whole record anew
  reap->state = strata_reap::kGone;
  reap->next = g_free;
  g_free = reap;
}

// Children before their parents, without recursion: a chain may be long.
void EndBelow(strata_reap* top) STRATA_REQUIRES(g_tree) {
  for (strata_reap* at = top;;) {
    if (at->first_child != nullptr) {
      at = at->first_child;
    } else if (at == top) {
      return;
    } else {
      strata_reap* parent = at->parent;
      EndOne(at);
      at = parent;
    }
  }
}

strata_reap* Create(strata_reap* parent, bool shared) {
  if (parent != nullptr && !Expect(parent)) return nullptr;
  strata_reap* raw = NewRecord();
  if (raw == nullptr) return nullptr;
  auto* reap = ::new (static_cast<void*>(raw)) strata_reap();
  reap->heap.set_owner(reap);
  reap->shared = shared;
  LockHolder hold(g_tree);
  if (shared) {
    reap->next_shared = g_shared;
    if (g_shared != nullptr) g_shared->previous_shared = reap;
    g_shared = reap;
  }
  Link(reap, parent);
  return reap;
}

void* Move(strata_reap* reap, void* p, size_t size) {
  void* to = reap->heap.allocate(size);
  if (to == nullptr) return OrNoMemory(nullptr);
  const size_t old_size = reap->heap.size_of(p);
  memcpy(to, p, old_size < size ? old_size : size);
  reap->heap.deallocate(p);
  return to;
}

}  // namespace

void LockReaps() STRATA_NO_TSA {
  g_tree.Acquire();
  for (strata_reap* r = g_shared; r != nullptr; r = r->next_shared) r->lock.lock();
}
void UnlockReaps() STRATA_NO_TSA {
  for (strata_reap* r = g_shared; r != nullptr; r = r->next_shared) r->lock.unlock();
  g_tree.Release();
}

}  // namespace strata

using strata::Hold;

STRATA_EXPORT strata_reap* strata_reap_create(strata_reap* parent) {
  return strata::Create(parent, false);
}
STRATA_EXPORT strata_reap* strata_reap_create_shared(strata_reap* parent) {
  return strata::Create(parent, true);
}

STRATA_EXPORT void* strata_reap_malloc(strata_reap* reap, size_t size) {
  if (!strata::Expect(reap)) return nullptr;
  Hold hold(reap);
  return strata::OrNoMemory(reap->heap.allocate(size));
}

STRATA_EXPORT void* strata_reap_calloc(strata_reap* reap, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return strata::OrNoMemory(nullptr);
  void* p = strata_reap_malloc(reap, bytes);
  return p == nullptr ? nullptr : memset(p, 0, bytes);
}

STRATA_EXPORT void* strata_reap_memalign(strata_reap* reap, size_t alignment, size_t size) {
  if (!strata::Expect(reap)) return nullptr;
  if (!strata::layers::IsPowerOfTwo(alignment) || alignment > (size_t{1} << 30)) {
    errno = EINVAL;
    return nullptr;
  }
  Hold hold(reap);
  return strata::OrNoMemory(reap->heap.allocate(size, alignment));
}

STRATA_EXPORT void* strata_reap_realloc(strata_reap* reap, void* p, size_t size) {
  if (p == nullptr) return strata_reap_malloc(reap, size);
  if (size == 0) {
    strata_reap_free(reap, p);
    return nullptr;
  }
  if (!strata::Expect(reap)) return nullptr;
  Hold hold(reap);
  if (!strata::ExpectBlock(reap, p)) {
    errno = EINVAL;
    return nullptr;
  }
  return reap->heap.resize(p, size) ? p : strata::Move(reap, p, size);
}

STRATA_EXPORT void strata_reap_free(strata_reap* reap, void* p) {
  if (p == nullptr || !strata::Expect(reap)) return;
  Hold hold(reap);
  if (strata::ExpectBlock(reap, p)) reap->heap.deallocate(p);
}

STRATA_EXPORT void strata_reap_clear(strata_reap* reap) {
  if (!strata::Expect(reap)) return;
  strata::LockHolder tree(strata::g_tree);
  strata::EndBelow(reap);
  Hold hold(reap);
  reap->heap.clear();
}

STRATA_EXPORT void strata_reap_destroy(strata_reap* reap) {
  if (reap == nullptr || !strata::Expect(reap)) return;
  strata::LockHolder tree(strata::g_tree);
  strata::EndBelow(reap);
  strata::EndOne(reap);
}

STRATA_EXPORT strata_reap* strata_reap_find(const void* p) { return strata::Find(p); }

STRATA_EXPORT int strata_reap_set_parent(strata_reap* reap, strata_reap* parent) {
  if (!strata::Expect(reap) || (parent != nullptr && !strata::Expect(parent))) return EINVAL;
  strata::LockHolder tree(strata::g_tree);
  for (const strata_reap* above = parent; above != nullptr; above = above->parent) {
    if (above == reap) return EINVAL;
  }
  strata::Unlink(reap);
  strata::Link(reap, parent);
  return 0;
}

STRATA_EXPORT size_t strata_reap_bytes(strata_reap* reap) {
  if (!strata::Expect(reap)) return 0;
  Hold hold(reap);
  return reap->heap.used();
}
STRATA_EXPORT size_t strata_reap_held(strata_reap* reap) {
  if (!strata::Expect(reap)) return 0;
  Hold hold(reap);
  return reap->heap.held();
}

STRATA_EXPORT void strata_reap_set_cap(strata_reap* reap, size_t bytes,
                                       strata_reap_cap_function reached, void* context) {
  if (!strata::Expect(reap)) return;
  Hold hold(reap);
  reap->heap.set_cap(bytes, reached, context);
}
