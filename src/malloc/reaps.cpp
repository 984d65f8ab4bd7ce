// The records and the tree of reaps, and what is done in one. See reaps.h.
#include "malloc/reaps.h"

#include <errno.h>
#include <stdlib.h>

#include "base/errno_keeper.h"
#include "base/message.h"
#include "malloc/background.h"
#include "malloc/fast_path.h"
#include "malloc/record_list.h"
#include "malloc/runtime.h"
#include "malloc/scopes.h"

namespace strata {

Lock g_tree{LockRank::kControl};

namespace {

constinit RecordList<strata_reap> g_records;
strata_reap* g_shared STRATA_GUARDED_BY(g_tree) = nullptr;

// The reap's lock, and its scope's account of what happens under it.
class Hold {
 public:
  explicit Hold(strata_reap* reap) : reap_(reap), shared_(reap->shared) {
    if (!shared_) return;
    reap->lock.lock();
    counted_ = reap->heap.used();
  }
  ~Hold() {
    if (!shared_) return;
    if (strata_scope* scope = reap_->scope) AdjustScope(scope, reap_->heap.used() - counted_);
    reap_->lock.unlock();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // Counts what will be allocated at the most. Null, or the scope whose cap is in the way.
  strata_scope* Reserve(size_t bytes) {
    if (bytes == 0) return nullptr;
    strata_scope* full = ReserveInScope(reap_->scope, bytes);
    if (full == nullptr) counted_ += bytes;
    return full;
  }

 private:
  strata_reap* reap_;
  bool shared_;  // as it was: a stale handle's record may be another reap's since
  size_t counted_ = 0;
};

STRATA_NOINLINE void StartThreadNow() {
  const ErrnoKeeper keep;
  const OutOfScope out;
  StartBackgroundIfNeeded();
}

void ToggleReapPages(const void* p, size_t size) {
  if (size < kPageSize || CurrentState() != RunState::kReady) return;
  Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  const SizeClass c = size > kMaxClassSize ? SizeClass::kNone : ClassOfSize(size);
  r.heap.page_map().ToggleReap({PageId(offset >> kPageShift), PagesCeil(size)}, c);
}

// Where the process heap's block begins that p lies in; null for other memory. Of large blocks only
// the first page is known.
const void* BlockAround(const void* p) {
  if (CurrentState() != RunState::kReady) return nullptr;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end()) return nullptr;
  const PageId page(offset >> kPageShift);
  if (r.heap.page_map().ClassOf(page) != kReapPage) return nullptr;
  const Span* span = r.heap.page_map().SpanOf(page);
  size_t start = span->start_offset();
  if (span->state != SpanState::kLarge) {
    const ClassInfo& info = InfoOf(span->size_class);
    start += IndexOfOffset(info, offset - start) * info.size;
  }
  return reinterpret_cast<const void*>(r.kernel.base() + start);
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

void LinkShared(strata_reap* reap) STRATA_REQUIRES(g_tree) {
  reap->next_shared = g_shared;
  if (g_shared != nullptr) g_shared->previous_shared = reap;
  g_shared = reap;
}

void UnlinkShared(strata_reap* reap) STRATA_REQUIRES(g_tree) {
  if (!reap->shared) return;
  if (reap->next_shared != nullptr) reap->next_shared->previous_shared = reap->previous_shared;
  (reap->previous_shared != nullptr ? reap->previous_shared->next_shared : g_shared) =
      reap->next_shared;
}

// A reap ends in three steps, so that its memory goes back without g_tree: it leaves the tree and
// is gone for all others; its heap ends; its record is free.
class Ended {
 public:
  // The children that are kept go to the parent.
  void Add(strata_reap* reap) STRATA_REQUIRES(g_tree) {
    while (strata_reap* child = reap->first_child) {
      Unlink(child);
      Link(child, reap->parent);
    }
    Unlink(reap);
    UnlinkShared(reap);
    if (reap->shared) reap->lock.lock();
    reap->state.store(strata_reap::kGone, std::memory_order_relaxed);
    if (reap->shared) reap->lock.unlock();
    reap->next_ended = first_;
    first_ = reap;
  }
  // Children before their parents, without recursion: a chain may be long. With g_tree held over
  // the emptying of those that are kept, for their owners may end them at any time.
  void AddBelow(strata_reap* top) STRATA_REQUIRES(g_tree) {
    for (strata_reap* at = Deepest(top); at != top;) {
      strata_reap* after = at->next != nullptr ? Deepest(at->next) : at->parent;
      if (at->kept) {
        const Hold hold(at);
        at->heap.clear();
      } else {
        Add(at);
      }
      at = after;
    }
  }
  // One that is in no tree, and in no other thread's sight.
  void AddLone(strata_reap* reap) {
    reap->state.store(strata_reap::kGone, std::memory_order_relaxed);
    reap->next_ended = first_;
    first_ = reap;
  }

  void Bury() STRATA_EXCLUDES(g_tree) {
    if (first_ == nullptr) return;
    for (strata_reap* r = first_; r != nullptr; r = r->next_ended) {
      const Hold hold(r);
      r->heap.~ReapHeap();
      ::new (&r->heap) ReapHeap();
    }
    LockHolder tree(g_tree);
    while (strata_reap* r = first_) {
      first_ = r->next_ended;
      if (strata_scope* scope = r->scope) DropScope(scope);
      g_records.Give(r);
    }
  }

 private:
  static strata_reap* Deepest(strata_reap* at) {
    while (at->first_child != nullptr) at = at->first_child;
    return at;
  }

  strata_reap* first_ = nullptr;
};

// What the last life of a record left, save for its lock.
void Renew(strata_reap* reap) {
  reap->shared = reap->retired = reap->kept = false;
  reap->parent = reap->first_child = reap->next = reap->previous = nullptr;
  reap->next_shared = reap->previous_shared = nullptr;
}

bool IsAlone(const strata_reap* reap) {
  return !reap->shared && reap->parent == nullptr && reap->first_child == nullptr;
}

void* OrNoMemory(void* p) {
  if (STRATA_UNLIKELY(p == nullptr)) errno = ENOMEM;
  return p;
}

}  // namespace

void* ReapChunks::allocate(size_t size) {
  const OutOfScope out;
  void* p = Allocate(size);
  if (p != nullptr) ToggleReapPages(p, size);
  return p;
}

void ReapChunks::deallocate(void* p, size_t size) {
  ToggleReapPages(p, size);
  Free(p);
}

void ReportMisuse(const char* what, const void* p) {
  const bool ready = CurrentState() == RunState::kReady;
  const bool fatal = !ready || TheRuntime().options.on_error == OnError::kAbort;
  Message().Text(what).Hex(reinterpret_cast<uintptr_t>(p)).Text(fatal ? "" : " (ignored)").Send();
  if (!fatal) return;
  t_state.scope = nullptr;  // for a SIGABRT handler's allocations
  abort();
}

bool RefuseReap(const strata_reap* reap) {
  ReportMisuse("not a reap, or one that is gone: ", reap);
  errno = EINVAL;
  return false;
}

strata_reap* ReapAround(const void* p) {
  const void* chunk = BlockAround(p);
  if (chunk == nullptr) return nullptr;
  auto* reap = static_cast<strata_reap*>(ReapHeap::owner_at(chunk));
  return reap != nullptr && IsLiveReap(reap) ? reap : nullptr;
}

// On a later page of a large block its own word says where that begins, and is believed if a reap's
// chunk does begin there.
strata_reap* ReapOfBlock(void* p) {
  if (CurrentState() != RunState::kReady || reinterpret_cast<uintptr_t>(p) % 16 != 0)
    return nullptr;
  if (strata_reap* reap = ReapAround(p)) return reap;
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  if (offset >= r.kernel.mapped_end() || offset < kPageSize) return nullptr;
  if (r.heap.page_map().ClassOf(PageId(offset >> kPageShift)) != SizeClass::kNone ||
      r.heap.LargeAt(p) != nullptr) {
    return nullptr;
  }
  auto* block = layers::TaggedBlock::Of(p);
  if (!block->apart()) return nullptr;
  const void* start = static_cast<char*>(p) - block->apart_offset();
  return BlockAround(start) == start ? ReapAround(start) : nullptr;
}

// A block of the reap may begin at p.
STRATA_ALWAYS_INLINE static bool LiesIn(strata_reap* reap, void* p) {
  const bool aligned = reinterpret_cast<uintptr_t>(p) % ReapHeap::alignment == 0;
  return aligned && (reap->heap.in_newest_chunk(p) || ReapOfBlock(p) == reap);
}

// Why p is no block of the reap's that is in use; null if it is one. The reap's lock is held, and
// let go before the misuse is reported: that ends in the program's SIGABRT handler, which may use
// the reap or fork.
STRATA_ALWAYS_INLINE static const char* WhyNoBlock(strata_reap* reap, void* p) {
  if (STRATA_UNLIKELY(CurrentState() == RunState::kStoodDown)) return nullptr;
  if (STRATA_UNLIKELY(!LiesIn(reap, p))) return "a block that is not of this reap: ";
  if (STRATA_UNLIKELY(!reap->heap.is_live(p))) return "a reap's block freed twice: ";
  return nullptr;
}

STRATA_NOINLINE static bool RefuseBlock(const char* why, const void* p) {
  ReportMisuse(why, p);
  return false;
}

STRATA_NOINLINE static bool ExpectSharedBlock(strata_reap* reap, void* p) {
  const char* why;
  {
    Hold hold(reap);
    why = WhyNoBlock(reap, p);
  }
  return why == nullptr || RefuseBlock(why, p);
}

// A reap for one thread has most calls, and no lock.
bool ExpectBlock(strata_reap* reap, void* p) {
  if (STRATA_UNLIKELY(reap->shared)) return ExpectSharedBlock(reap, p);
  const char* why = WhyNoBlock(reap, p);
  return STRATA_LIKELY(why == nullptr) || RefuseBlock(why, p);
}

strata_reap* CreateReap(strata_reap* parent, bool shared, strata_scope* scope) {
  if (parent != nullptr && !ExpectReap(parent)) return nullptr;
  strata_reap* reap = g_records.Take();
  if (reap == nullptr) return nullptr;
  Renew(reap);
  reap->heap.set_owner(reap);
  reap->shared = shared;
  if (shared) reap->heap.shut_window();
  reap->scope.store(scope, std::memory_order_relaxed);
  // release: pairs with the acquire in IsStill.
  reap->state.store(strata_reap::kLive, std::memory_order_release);
  if (parent == nullptr && !shared) return reap;
  LockHolder hold(g_tree);
  if (shared) LinkShared(reap);
  Link(reap, parent);
  return reap;
}

void ClearReap(strata_reap* reap) {
  // One that a single thread uses gets no children meanwhile.
  if (!reap->shared && reap->first_child == nullptr) return reap->heap.clear();
  Ended ended;
  {
    LockHolder tree(g_tree);
    ended.AddBelow(reap);
  }
  ended.Bury();
  Hold hold(reap);
  if (IsLiveReap(reap)) reap->heap.clear();
}

void DestroyReap(strata_reap* reap) {
  Ended ended;
  if (IsAlone(reap)) {
    ended.AddLone(reap);
  } else {
    LockHolder tree(g_tree);
    if (IsLiveReap(reap)) {
      ended.AddBelow(reap);
      ended.Add(reap);
    }
  }
  ended.Bury();
}

void KeepReap(strata_reap* reap) {
  LockHolder tree(g_tree);
  reap->kept = true;
}

void RetireReap(strata_reap* reap) {
  bool empty;
  {
    Hold hold(reap);
    reap->retired = true;
    empty = reap->heap.used() == 0;
  }
  if (empty) DestroyReap(reap);
}

int SetReapParent(strata_reap* reap, strata_reap* parent) {
  LockHolder tree(g_tree);
  for (const strata_reap* above = parent; above != nullptr; above = above->parent) {
    if (above == reap) return EINVAL;
  }
  Unlink(reap);
  Link(reap, parent);
  return 0;
}

// Under the lock, for another thread may have ended it since it was seen alive.
static bool IsStill(const strata_reap* reap, const strata_scope* scope) {
  // acquire: pairs with the release in CreateReap.
  return STRATA_LIKELY(reap->state.load(std::memory_order_acquire) == strata_reap::kLive &&
                       reap->scope.load(std::memory_order_relaxed) == scope);
}

static void* AllocateUnlessEnded(strata_reap* reap, strata_scope* scope, size_t size, size_t align,
                                 bool retired_too, bool* ended) {
  // No such request can be met, and the sums below can't overflow.
  if (STRATA_UNLIKELY(size > layers::kMaxRequest / 2)) return OrNoMemory(nullptr);
  const size_t most = scope == nullptr ? 0 : ReapHeap::most_for(size, align);
  strata_scope* full;
  do {
    void* p = nullptr;
    bool grew = false;
    {
      const NoThreadStart later;
      Hold hold(reap);
      if (STRATA_UNLIKELY(!IsStill(reap, scope) || (reap->retired && !retired_too))) {
        *ended = true;
        return nullptr;
      }
      full = hold.Reserve(most);
      if (STRATA_LIKELY(full == nullptr)) {
        const size_t held = reap->heap.held();
        p = align <= ReapHeap::alignment ? reap->heap.allocate(size)
                                         : reap->heap.allocate(size, align);
        grew = reap->heap.held() != held;
      }
    }
    if (STRATA_UNLIKELY(grew)) StartThreadNow();
    if (STRATA_LIKELY(full == nullptr)) return OrNoMemory(p);
  } while (RaiseCap(full, most));
  return OrNoMemory(nullptr);
}

void* AllocateInReap(strata_reap* reap, size_t size, size_t align) {
  bool ended = false;
  void* p = AllocateUnlessEnded(reap, reap->scope, size, align, true, &ended);
  if (STRATA_UNLIKELY(ended)) RefuseReap(reap);
  return p;
}

void* AllocateInScopesReap(strata_reap* reap, strata_scope* scope, size_t size, size_t align,
                           bool* ended) {
  return AllocateUnlessEnded(reap, scope, size, align, false, ended);
}

bool ResizeInReap(strata_reap* reap, void* p, size_t size) {
  if (size > layers::kMaxRequest / 2) return false;
  strata_scope* full;
  size_t most = 0;
  do {
    Hold hold(reap);
    if (STRATA_UNLIKELY(!IsLiveReap(reap))) return false;
    const size_t before = reap->heap.size_of(p);
    if (reap->scope != nullptr && size > before) most = ReapHeap::most_for(size) - before;
    full = hold.Reserve(most);
    if (STRATA_LIKELY(full == nullptr)) return reap->heap.resize(p, size);
  } while (RaiseCap(full, most));
  return false;
}

void FreeInReap(strata_reap* reap, void* p) {
  const char* why;
  bool last = false;
  {
    Hold hold(reap);
    why = WhyNoBlock(reap, p);
    if (STRATA_LIKELY(why == nullptr)) {
      reap->heap.deallocate(p);
      last = reap->retired && reap->heap.used() == 0;
    }
  }
  if (STRATA_UNLIKELY(why != nullptr)) return ReportMisuse(why, p);
  if (STRATA_UNLIKELY(last)) DestroyReap(reap);
}

// Under the lock: a neighbour that is freed writes to the word that holds the size.
size_t SizeInReap(strata_reap* reap, void* p) {
  Hold hold(reap);
  return reap->heap.size_of(p);
}

size_t LiveSizeInReap(strata_reap* reap, void* p) {
  Hold hold(reap);
  if (CurrentState() != RunState::kStoodDown && !LiesIn(reap, p)) return 0;
  return reap->heap.is_live(p) ? reap->heap.size_of(p) : 0;
}

size_t UsedByReap(strata_reap* reap) {
  Hold hold(reap);
  return reap->heap.used();
}
size_t HeldByReap(strata_reap* reap) {
  Hold hold(reap);
  return reap->heap.held();
}
void ReserveInReap(strata_reap* reap, size_t bytes) {
  const NoThreadStart later;
  Hold hold(reap);
  if (IsLiveReap(reap)) reap->heap.reserve(bytes);
}
void CapReap(strata_reap* reap, size_t bytes, strata_reap_cap_function reached, void* context) {
  Hold hold(reap);
  reap->heap.set_cap(bytes, reached, context);
}

bool ExpectShared(const strata_reap* reap, const void* p) {
  if (reap->shared) return true;
  ReportMisuse("free or realloc of a block of a reap for one thread: ", p);
  errno = EINVAL;
  return false;
}

bool FreeReapBlock(void* p) {
  strata_reap* reap = ReapOfBlock(p);
  if (reap == nullptr) return false;
  if (ExpectShared(reap, p)) FreeInReap(reap, p);
  return true;
}

void LockReaps() STRATA_NO_TSA {
  g_tree.Acquire();
  for (strata_reap* r = g_shared; r != nullptr; r = r->next_shared) r->lock.lock();
}
void UnlockReaps() STRATA_NO_TSA {
  for (strata_reap* r = g_shared; r != nullptr; r = r->next_shared) r->lock.unlock();
  g_tree.Release();
}

}  // namespace strata
