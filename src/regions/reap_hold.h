// The lock of a shared reap, with the account of its scope. Inside of reaps.cpp and reap_tree.cpp.
#pragma once

#include "regions/reaps.h"
#include "regions/scopes.h"

namespace strata {

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

  // Counts what will be allocated at the most. Null, or the scope whose cap is in the way; the
  // reap's scope is held then, for the reap may end as soon as its lock is let go.
  strata_scope* Reserve(size_t bytes) {
    if (bytes == 0) return nullptr;
    strata_scope* full = ReserveInScope(reap_->scope, bytes);
    full == nullptr ? void(counted_ += bytes) : HoldScope(reap_->scope);
    return full;
  }

 private:
  strata_reap* reap_;
  bool shared_;  // as it was: a stale handle's record may be another reap's since
  size_t counted_ = 0;
};

}  // namespace strata
