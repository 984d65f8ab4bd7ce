// What is done in a reap, with its lock, its scope's account and its cap. See reaps.h; which reap a
// block is of is in reap_lookup.h, their tree in reap_tree.cpp.
#include "regions/reaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utility>

#include "base/errno_keeper.h"
#include "base/message.h"
#include "malloc/background.h"
#include "malloc/blocks.h"
#include "malloc/error_report.h"
#include "malloc/fast_path.h"
#include "malloc/price.h"
#include "malloc/runtime.h"
#include "regions/cap_call.h"
#include "regions/reap_hold.h"
#include "regions/reap_lookup.h"
#include "regions/scopes.h"

namespace strata {

namespace {

// What malloc, which gave the chunk under the reap's lock, could not do there.
STRATA_NOINLINE void TendAfterLockedGrowth() {
  const ErrnoKeeper keep;
  const OutOfScope out;
  TendBackground();
  PayForGrowthIfDue();
}

void* OrNoMemory(void* p) {
  if (STRATA_UNLIKELY(p == nullptr)) errno = ENOMEM;
  return p;
}

}  // namespace

void ReportMisuse(const char* what, const void* p) {
  CountMemoryError();
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

constexpr const char* kNotOfThisReap = "a block that is not of this reap: ";
constexpr const char* kFreedTwice = "a reap's block freed twice: ";

// Why p is no block of the reap's that is in use; null if it is one. The reap's lock is held, and
// let go before the misuse is reported: that ends in the program's SIGABRT handler, which may use
// the reap or fork.
STRATA_ALWAYS_INLINE static const char* WhyNoBlock(strata_reap* reap, void* p) {
  if (STRATA_UNLIKELY(CurrentState() == RunState::kStoodDown)) return nullptr;
  if (STRATA_UNLIKELY(!LiesIn(reap, p))) return kNotOfThisReap;
  if (STRATA_UNLIKELY(!reap->heap.is_live(p))) return kFreedTwice;
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

// Under the lock, for another thread may have ended it since it was seen alive.
static bool IsStill(const strata_reap* reap, const strata_scope* scope) {
  // acquire: pairs with the release in CreateReap.
  return STRATA_LIKELY(reap->state.load(std::memory_order_acquire) == strata_reap::kLive &&
                       reap->scope.load(std::memory_order_relaxed) == scope);
}

namespace {

// What a reap that is to go with its last block is to a request.
enum class Retired : bool { kHasEnded, kServes };

// Of an allocation, until it is met or refused.
class Request {
 public:
  Request(strata_reap* reap, strata_scope* scope, size_t size, size_t align)
      : reap_(reap),
        scope_(scope),
        size_(size),
        align_(align),
        most_(scope == nullptr ? 0 : ReapHeap::most_for(size, align)),
        life_(reap->ended) {}

  // Null with *ended: the reap is not what it was. Null with full_ or beyond_: a cap is in the way,
  // the scope's or the reap's own.
  void* Try(Retired retired, bool* ended) {
    void* p = nullptr;
    bool grew = false;
    {
      const NoThreadStart later;
      Hold hold(reap_);
      if (STRATA_UNLIKELY(!IsStill() || (reap_->retired && retired == Retired::kHasEnded))) {
        *ended = true;
        return nullptr;
      }
      full_ = hold.Reserve(most_);
      if (STRATA_UNLIKELY(full_ != nullptr)) return nullptr;
      ReapHeap& heap = reap_->heap;
      const size_t held = heap.held();
      p = align_ <= ReapHeap::alignment ? heap.allocate(size_) : heap.allocate(size_, align_);
      grew = heap.held() != held;
      if (STRATA_UNLIKELY(p == nullptr)) beyond_ = heap.refused_by_cap();
    }
    if (STRATA_UNLIKELY(grew)) TendAfterLockedGrowth();
    return p;
  }

  // No lock is held. Whether to try again.
  bool AskAtCap() {
    if (full_ != nullptr) return RaiseCap(std::exchange(full_, nullptr), scope_, most_);
    return beyond_ != 0 && !is_last_try_ && AskAtReapsCap(std::exchange(beyond_, 0));
  }

 private:
  // Under the lock, for another thread may have ended it since it was seen alive.
  bool IsStill() const {
    return STRATA_LIKELY(strata::IsStill(reap_, scope_) && reap_->ended == life_);
  }

  bool AskAtReapsCap(size_t wanted) {
    CapCall call{};
    {
      Hold hold(reap_);
      if (!IsStill()) return true;  // and find it ended
      call = {{reap_->heap.held(), wanted, reap_->heap.cap()}, reap_->reached, reap_->context};
    }
    if (call.IsMoot()) return true;
    if (call.reached == nullptr) return false;
    const size_t answer = call.Ask();
    Hold hold(reap_);
    if (!IsStill()) return true;
    const layers::CapVerdict verdict = call.Judge(answer, reap_->heap.held());
    if (verdict == layers::CapVerdict::kRefused) return false;
    // Where another thread's answer came first, this one is to a question that is no longer open.
    if (reap_->heap.cap() != call.cap) return true;
    reap_->heap.set_cap(answer);
    is_last_try_ = verdict == layers::CapVerdict::kTryOnce;
    return true;
  }

  strata_reap* reap_;
  strata_scope* scope_;
  size_t size_;
  size_t align_;
  size_t most_;    // that it can add to the scope's live bytes
  uint64_t life_;  // of the reap's record
  strata_scope* full_ = nullptr;
  size_t beyond_ = 0;
  bool is_last_try_ = false;
};

STRATA_ALWAYS_INLINE void* AllocateUnlessEnded(strata_reap* reap, strata_scope* scope, size_t size,
                                               size_t align, Retired retired, bool* ended) {
  // No such request can be met, and the sums below can't overflow.
  if (STRATA_UNLIKELY(size > layers::kMaxRequest / 2)) return OrNoMemory(nullptr);
  Request request(reap, scope, size, align);
  void* p;
  do {
    p = request.Try(retired, ended);
  } while (STRATA_UNLIKELY(p == nullptr) && !*ended && request.AskAtCap());
  return OrNoMemory(p);
}

}  // namespace

void* AllocateInReap(strata_reap* reap, size_t size, size_t align) {
  bool ended = false;
  void* p = AllocateUnlessEnded(reap, reap->scope, size, align, Retired::kServes, &ended);
  if (STRATA_UNLIKELY(ended)) RefuseReap(reap);
  return p;
}

void* AllocateInScopesReap(strata_reap* reap, strata_scope* scope, size_t size, size_t align,
                           bool* ended) {
  return AllocateUnlessEnded(reap, scope, size, align, Retired::kHasEnded, ended);
}

void* MoveInReap(strata_reap* reap, void* p, size_t size) {
  void* to = AllocateInReap(reap, size, ReapHeap::alignment);
  if (to == nullptr) return nullptr;
  const size_t old_size = SizeInReap(reap, p);
  memcpy(to, p, old_size < size ? old_size : size);
  FreeInReap(reap, p);
  return to;
}

static void* Resize(ReapHeap& heap, void* p, size_t size, Resizing how, bool* grew) {
  if (heap.resize(p, size)) return p;
  if (how == Resizing::kInPlace) return nullptr;
  const size_t held = heap.held();
  void* moved = heap.remap(p, size);
  *grew = heap.held() > held;
  return moved;
}

void* ResizeInReap(strata_reap* reap, void* p, size_t size, Resizing how) {
  if (size > layers::kMaxRequest / 2) return nullptr;
  strata_scope* const scope = reap->scope;
  strata_scope* full;
  size_t most = 0;
  do {
    void* resized = nullptr;
    bool grew = false;
    {
      const NoThreadStart later;
      Hold hold(reap);
      if (STRATA_UNLIKELY(!IsStill(reap, scope))) return nullptr;
      const size_t before = reap->heap.size_of(p);
      if (scope != nullptr && size > before) most = ReapHeap::most_for(size) - before;
      full = hold.Reserve(most);
      if (STRATA_LIKELY(full == nullptr)) resized = Resize(reap->heap, p, size, how, &grew);
    }
    if (STRATA_UNLIKELY(grew)) TendAfterLockedGrowth();
    if (STRATA_LIKELY(full == nullptr)) return resized;
  } while (RaiseCap(full, scope, most));
  return nullptr;
}

STRATA_NOINLINE static void ReportBadFree(const char* why, const void* p) {
  const ErrnoKeeper keep;
  ReportMisuse(why, p);
}

// `free`, called inside of the reap's lock, frees p, or says why p is no block of the reap.
template <class F>
STRATA_ALWAYS_INLINE static void FreeLocked(strata_reap* reap, void* p, F free) {
  const char* why;
  bool last;
  {
    Hold hold(reap);
    why = free(hold);
    last = why == nullptr && reap->retired && reap->heap.used() == 0;
  }
  if (STRATA_UNLIKELY(why != nullptr)) return ReportBadFree(why, p);
  if (STRATA_UNLIKELY(last)) DestroyReap(reap);
}

// False, with nothing done: p is none of the reap's live blocks, or it takes all checks to say so.
STRATA_ALWAYS_INLINE static bool FreeIfPlain(strata_reap* reap, void* p) {
  void* chunk = reap->heap.newest_chunk_around(p);
  if (chunk == nullptr) {
    chunk = const_cast<void*>(BlockAround(p));
    if (chunk == nullptr || ReapHeap::owner_at(chunk) != reap) return false;
  }
  return STRATA_LIKELY(reinterpret_cast<uintptr_t>(p) % ReapHeap::alignment == 0) &&
         STRATA_LIKELY(p > chunk) && reap->heap.free_in(p, chunk);
}

bool FreeInOwn(strata_reap* reap, void* p) { return FreeIfPlain(reap, p); }

void FreeInReap(strata_reap* reap, void* p) {
  FreeLocked(reap, p, [&](const Hold&) -> const char* {
    if (STRATA_LIKELY(FreeIfPlain(reap, p))) return nullptr;
    const char* why = WhyNoBlock(reap, p);
    if (STRATA_LIKELY(why == nullptr)) reap->heap.deallocate(p);
    return why;
  });
}

// The reap is not what FreeDivided takes it for.
STRATA_NOINLINE static void FreeDividedSlow(void* p, void* chunk) {
  strata_reap* reap = ReapAt(chunk);
  if (reap == nullptr || !reap->shared || p <= chunk ||
      reinterpret_cast<uintptr_t>(p) % ReapHeap::alignment != 0) {
    return FreeSmallOther(p);
  }
  FreeLocked(reap, p, [&](const Hold&) -> const char* {
    // Before the lock was had, another thread may have freed the block, and the chunk gone with it.
    if (STRATA_UNLIKELY(ReapAt(chunk) != reap)) return kNotOfThisReap;
    return STRATA_LIKELY(reap->heap.free_in(p, chunk)) ? nullptr : kFreedTwice;
  });
}

// All that a thread does in its own scope most of the time; calls nothing, and saves no register.
void FreeDivided(void* p) {
  const Runtime& r = TheRuntime();
  const size_t offset = reinterpret_cast<uintptr_t>(p) - r.kernel.base();
  void* chunk = const_cast<void*>(BlockInDivided(r, offset));
  auto* reap = static_cast<strata_reap*>(ReapHeap::owner_at(chunk));
  if (STRATA_LIKELY(reap != nullptr) && STRATA_LIKELY(reap->lock.TryEnterAsOwner(ThisThread()))) {
    strata_scope* scope = reap->scope.load(std::memory_order_relaxed);
    size_t bytes = 0;
    if (STRATA_LIKELY(scope->outer == nullptr && !reap->retired) &&
        STRATA_LIKELY(offset % ReapHeap::alignment == 0) && STRATA_LIKELY(p > chunk)) {
      bytes = reap->heap.set_aside(p, chunk);
      scope->own.store(scope->own.load(std::memory_order_relaxed) - bytes,
                       std::memory_order_relaxed);
    }
    reap->lock.LeaveAsOwner();
    if (STRATA_LIKELY(bytes != 0)) return;
  }
  FreeDividedSlow(p, chunk);
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
void ReapLasts(strata_reap* reap) {
  Hold hold(reap);
  if (IsLiveReap(reap)) reap->placement.lifetime = LifetimeClass::kLong;
}
void ReserveInReap(strata_reap* reap, size_t bytes) {
  const NoThreadStart later;
  Hold hold(reap);
  if (IsLiveReap(reap)) reap->heap.reserve(bytes);
}
void CapReap(strata_reap* reap, size_t bytes, strata_reap_cap_function reached, void* context) {
  Hold hold(reap);
  reap->heap.set_cap(bytes);
  reap->reached = reached;
  reap->context = context;
}

}  // namespace strata
