// Scopes (include/strata/scope.h): a thread in one allocates from the scope's own shared reap, and
// the scope and those around it count the bytes. The thread's stretch is kept at 0 meanwhile, as
// the sampler does it, so that every allocation takes the slow path and the fast path needs no
// test; free() finds the reap by the page map. What malloc asks of them is in
// malloc/region_calls.h. Sits in regions.
#pragma once

#include <cstddef>

#include "base/lock.h"
#include "malloc/runtime.h"
#include "regions/reaps.h"

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

// The account of a scope and of those around it. It changes under the lock of the reap whose bytes
// they are, so that a fork finds it whole. Reserve gives null, or the scope whose cap is in the
// way, and has counted nothing then.
strata_scope* ReserveInScope(strata_scope* scope, size_t bytes);
void AdjustScope(strata_scope* scope, size_t by);  // modulo 2^64
// The record of a scope and of those around it serves no other as long as it is held. To be called
// by who knows that another holds it.
void HoldScope(strata_scope* scope);
void DropScope(strata_scope* scope) STRATA_EXCLUDES(g_tree);
// Asks the function of the scope whose cap is in the way, and drops `held`, the reap's scope.
// Without a lock, for the function is the program's and may end the scope. False: the cap stands.
bool RaiseCap(strata_scope* full, strata_scope* held, size_t bytes);

}  // namespace strata
