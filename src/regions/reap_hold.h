// The lock of a shared reap, with the account of its scope. Inside of reaps.cpp and reap_tree.cpp.
#pragma once

#include "regions/reaps.h"
#include "regions/scopes.h"

namespace strata {

// The reap's lock, and its scope's account of what happens inside.
class Hold {
 public:
  STRATA_ALWAYS_INLINE explicit Hold(strata_reap* reap) : reap_(reap), shared_(reap->shared) {
    if (!shared_) return;
    how_ = reap->lock.Enter(ThisThread());
    counted_ = reap->heap.used();
  }
  STRATA_ALWAYS_INLINE ~Hold() {
    if (!shared_) return;
    if (strata_scope* scope = reap_->scope) {
      ScopeAccount::HasNow(scope, counted_, reap_->heap.used());
      if (!by_owner() && t_state.scope == scope && IsLiveReap(reap_))
        reap_->lock.BecomeOwner(ThisThread());
    }
    reap_->lock.Leave(how_);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // So nobody else has been inside since the thread became the owner, and the reap is alive.
  bool by_owner() const { return how_ == ReapLock::How::kAsOwner; }

  // Counts what will be allocated at the most. Null, or the scope whose cap is in the way; the
  // reap's scope is held then, for the reap may end as soon as its lock is let go.
  strata_scope* Reserve(size_t bytes) {
    if (bytes == 0) return nullptr;
    strata_scope* full = ScopeAccount::Reserve(reap_->scope, bytes);
    if (full != nullptr) HoldScope(reap_->scope);
    return full;
  }

 private:
  strata_reap* reap_;
  bool shared_;  // as it was: a stale handle's record may be another reap's since
  ReapLock::How how_ = ReapLock::How::kLocked;
  size_t counted_ = 0;
};

}  // namespace strata
