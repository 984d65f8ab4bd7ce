// Scopes (include/strata/scope.h): a thread in one allocates from the scope's own shared reap, and
// the scope and those around it count the bytes. The thread's stretch is kept at 0 meanwhile, as
// the sampler does it, so that every allocation takes the slow path and the fast path needs no
// test; free() finds the reap by the page map. What malloc asks of them is in
// malloc/region_calls.h. Sits in regions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "malloc/runtime.h"
#include "regions/reaps.h"
#include "strata/scope.h"

namespace strata {

// The thread is in no scope: for what the allocator itself needs, and for the program's functions
// that it calls.
class OutOfScope {
 public:
  OutOfScope() : scope_(t_state.scope) { t_state.scope = nullptr; }
  ~OutOfScope() {
    if (scope_ == nullptr) return;
    t_state.scope = scope_;
    t_state.countdown.Pause();
  }
  OutOfScope(const OutOfScope&) = delete;
  OutOfScope& operator=(const OutOfScope&) = delete;

 private:
  strata_scope* scope_;
};

}  // namespace strata

// Records are never unmapped, like those of reaps. One that was closed still counts the blocks that
// are left.
struct strata_scope {
  enum State : uint64_t { kOpen = 0x65706f6373206e61, kClosed = 0x6465736f6c632061 };

  std::atomic<uint64_t> state{kClosed};
  strata_reap* reap = nullptr;
  strata_scope* outer = nullptr;  // at its creation; holds it
  // Live bytes are the sum of the two, modulo 2^64. `own`, of its reap, is stored by who is inside
  // the reap's lock; the rest is added by anybody: what scopes inside of it hold, and what is
  // reserved.
  std::atomic<size_t> own{0};
  std::atomic<size_t> others{0};
  // What the one inside the lock has reserved here and in the scopes around this; on its stack it
  // would be 8 bytes too many (tests/process/test_stacks.py).
  size_t reserved = 0;
  std::atomic<size_t> cap{0};
  strata_scope_cap_function reached = nullptr;
  void* context = nullptr;
  // Its reap, the scopes inside of it, the threads in it and those that ask its cap function, so
  // that none of these finds another scope in this record. With the last it is free.
  std::atomic<size_t> holders{1};
  strata_scope* next = nullptr;  // among the free ones

  size_t live() const {
    // acquire: pairs with the release in HasNow; what is reserved goes after it was stored.
    const size_t rest = others.load(std::memory_order_acquire);
    return rest + own.load(std::memory_order_relaxed);
  }
};

namespace strata {

// What a scope and those around it hold. It changes inside the lock of the reap whose bytes they
// are, so that a fork finds it whole.
struct ScopeAccount {
  // Reserves in all of them, if one has a cap. Null, or the scope whose cap is in the way, and
  // nothing is reserved then.
  static strata_scope* Reserve(strata_scope* scope, size_t bytes) {
    for (const strata_scope* s = scope; s != nullptr; s = s->outer) {
      if (STRATA_UNLIKELY(s->cap.load(std::memory_order_relaxed) != 0))
        return ReserveBelowCaps(scope, bytes);
    }
    return nullptr;
  }
  // The scope's reap had `before` bytes and has `now`; nothing is reserved any more.
  STRATA_ALWAYS_INLINE static void HasNow(strata_scope* scope, size_t before, size_t now) {
    // release: pairs with the acquire in live().
    scope->own.store(now, std::memory_order_release);
    const size_t reserved = scope->reserved;
    if (STRATA_UNLIKELY(reserved != 0)) {
      scope->reserved = 0;
      AddTo(scope, 0 - reserved);
    }
    if (STRATA_UNLIKELY(scope->outer != nullptr))
      AddFrom(scope->outer, nullptr, now - before - reserved);
  }

 private:
  static strata_scope* ReserveBelowCaps(strata_scope* scope, size_t bytes);
  static void AddTo(strata_scope* s, size_t bytes) {
    s->others.fetch_add(bytes, std::memory_order_acq_rel);
  }
  // From one scope outwards, up to another that is left out.
  static void AddFrom(strata_scope* from, const strata_scope* to, size_t bytes) {
    for (strata_scope* s = from; bytes != 0 && s != to; s = s->outer) AddTo(s, bytes);
  }
};

// The record of a scope and of those around it serves no other as long as it is held. To be called
// by who knows that another holds it.
void HoldScope(strata_scope* scope);
void DropScope(strata_scope* scope) STRATA_EXCLUDES(g_tree);
// Asks the function of the scope whose cap is in the way, and drops `held`, the reap's scope.
// Without a lock, for the function is the program's and may end the scope. False: the cap stands.
bool RaiseCap(strata_scope* full, strata_scope* held, size_t bytes);

}  // namespace strata
