// Scopes: records, accounts, and where a thread's allocations go. See scopes.h.
#include "regions/scopes.h"

#include <errno.h>

#include "malloc/blocks.h"
#include "malloc/fast_path.h"
#include "malloc/region_calls.h"
#include "malloc/slow_path.h"
#include "regions/cap_call.h"
#include "regions/record_list.h"
#include "strata/scope.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {
namespace {

constinit RecordList<strata_scope> g_records;

bool IsOpen(const strata_scope* scope) {
  return scope != nullptr && reinterpret_cast<uintptr_t>(scope) % alignof(strata_scope) == 0 &&
         scope->state.load(std::memory_order_relaxed) == strata_scope::kOpen;
}

bool Refuse(const strata_scope* scope) {
  ReportMisuse("not a scope, or one that has ended: ", scope);
  errno = EINVAL;
  return false;
}

bool Expect(const strata_scope* scope) { return STRATA_LIKELY(IsOpen(scope)) || Refuse(scope); }

bool Allows(size_t cap, size_t live) { return cap == 0 || live <= cap; }

// False: the scope has ended; its record may be free.
bool HoldIfOpen(strata_scope* scope) STRATA_EXCLUDES(g_tree) {
  size_t n = scope->holders.load(std::memory_order_relaxed);
  do {
    if (n == 0) return false;
  } while (!scope->holders.compare_exchange_weak(n, n + 1, std::memory_order_relaxed));
  if (IsOpen(scope)) return true;
  DropScope(scope);
  return false;
}

strata_scope* Create() {
  if (EnsureStarted() != RunState::kReady) return nullptr;
  strata_scope* outer = t_state.scope;
  if (outer != nullptr && !Expect(outer)) return nullptr;
  strata_scope* scope = g_records.Take();
  if (scope == nullptr) return nullptr;
  ::new (scope) strata_scope();
  if (outer != nullptr && !HoldIfOpen(outer)) {
    DropScope(scope);
    Refuse(outer);
    return nullptr;
  }
  scope->outer = outer;
  scope->reap = CreateReap(nullptr, UsedBy::kThreads, scope);
  if (scope->reap == nullptr) {
    DropScope(scope);
    return nullptr;
  }
  scope->state.store(strata_scope::kOpen, std::memory_order_release);
  return scope;
}

// False: it is not to be ended now. Of several threads that end one, one does.
bool Close(strata_scope* scope) {
  if (!Expect(scope)) return false;
  if (t_state.scope == scope) {
    ReportMisuse("a scope ended while the thread is in it: ", scope);
    errno = EINVAL;
    return false;
  }
  uint64_t open = strata_scope::kOpen;
  return scope->state.compare_exchange_strong(open, strata_scope::kClosed,
                                              std::memory_order_relaxed) ||
         Refuse(scope);
}

// The thread holds the record of the scope that it is in. False: that is none to go into.
bool Enter(strata_scope* scope) STRATA_EXCLUDES(g_tree) {
  if (scope != nullptr && !(IsOpen(scope) && HoldIfOpen(scope))) return false;
  strata_scope* before = t_state.scope;
  if (before != nullptr && before != scope) before->reap->lock.GiveUpBias(ThisThread());
  DropScope(before);
  t_state.scope = scope;
  return true;
}

}  // namespace

// Each total that is looked at has all reservations that came before it: so of two threads that
// would exceed a cap together, the second one sees it.
strata_scope* ScopeAccount::ReserveBelowCaps(strata_scope* scope, size_t bytes) {
  for (strata_scope* s = scope; s != nullptr; s = s->outer) {
    AddTo(s, bytes);
    if (STRATA_LIKELY(Allows(s->cap.load(std::memory_order_relaxed), s->live()))) continue;
    AddFrom(scope, s->outer, 0 - bytes);
    return s;
  }
  scope->reserved = bytes;
  return nullptr;
}

void HoldScope(strata_scope* scope) { scope->holders.fetch_add(1, std::memory_order_relaxed); }

namespace {

bool AskCap(strata_scope* full, strata_scope* held, size_t bytes) {
  if (full->reached == nullptr) return false;
  const CapCall call{{full->live(), bytes, full->cap.load(std::memory_order_relaxed)},
                     full->reached,
                     full->context};
  if (call.IsMoot()) return true;
  const size_t answer = call.Ask(held);
  const size_t live = full->live();
  const layers::CapVerdict verdict = call.Judge(answer, live);
  if (verdict == layers::CapVerdict::kRefused) return false;
  // Where another thread's answer came first, this one is to a question that is no longer open.
  size_t asked_at = call.cap;
  if (!full->cap.compare_exchange_strong(asked_at, answer, std::memory_order_relaxed)) return true;
  return verdict == layers::CapVerdict::kTryAgain;
}

}  // namespace

bool RaiseCap(strata_scope* full, strata_scope* held, size_t bytes) {
  const bool raised = AskCap(full, held, bytes);
  DropScope(held);
  return raised;
}

void DropScope(strata_scope* scope) {
  // acq_rel: what the others did to the record comes before its next life.
  while (scope != nullptr && scope->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    strata_scope* outer = scope->outer;
    LockHolder tree(g_tree);
    g_records.Give(scope);
    scope = outer;
  }
}

void* AllocateInScope(size_t size, size_t align) {
  strata_scope* scope = t_state.scope;
  const int saved = errno;
  // One that another thread ended, and STRATA_ON_ERROR says to go on: it is no scope then.
  bool ended = !IsOpen(scope);
  void* p = ended ? nullptr : AllocateInScopesReap(scope->reap, scope, size, align, &ended);
  {
    const OutOfScope out;
    if (STRATA_UNLIKELY(ended)) {
      ReportMisuse("an allocation in a scope that has ended: ", scope);
      p = align <= 16 ? Allocate(size) : AllocateAligned(size, align);
    } else {
      TendAfterGrowth();
    }
  }
  if (STRATA_LIKELY(p != nullptr)) errno = saved;
  return p;
}

}  // namespace strata

STRATA_EXPORT strata_scope* strata_scope_create() {
  const int saved = errno;
  errno = ENOMEM;  // unless there is another reason
  strata_scope* scope = strata::Create();
  if (scope != nullptr) errno = saved;
  return scope;
}

STRATA_EXPORT strata_scope* strata_scope_enter(strata_scope* scope) {
  strata_scope* before = strata::t_state.scope;
  if (!strata::Enter(scope)) {
    strata::Refuse(scope);
    return before;
  }
  strata::t_state.countdown.Pause();
  return before;
}

STRATA_EXPORT strata_scope* strata_scope_current() { return strata::t_state.scope; }

STRATA_EXPORT void strata_scope_close(strata_scope* scope) {
  if (strata::Close(scope)) strata::RetireReap(scope->reap);
}

STRATA_EXPORT void strata_scope_destroy(strata_scope* scope) {
  if (strata::Close(scope)) strata::DestroyReap(scope->reap);
}

STRATA_EXPORT size_t strata_scope_live(const strata_scope* scope) {
  return strata::Expect(scope) ? scope->live() : 0;
}

STRATA_EXPORT void strata_scope_set_cap(strata_scope* scope, size_t bytes,
                                        strata_scope_cap_function reached, void* context) {
  if (!strata::Expect(scope)) return;
  scope->reached = reached;
  scope->context = context;
  scope->cap.store(bytes, std::memory_order_relaxed);
}

STRATA_EXPORT void strata_scope_lasts(strata_scope* scope) {
  if (strata::Expect(scope)) strata::ReapLasts(scope->reap);
}

STRATA_EXPORT void strata_scope_expect(strata_scope* scope, size_t bytes) {
  if (strata::Expect(scope)) strata::ReserveInReap(scope->reap, bytes);
}
