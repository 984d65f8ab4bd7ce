// The records of reaps and their tree: how a reap comes to be, ends, and what ends with it. See
// reaps.h.
#include <errno.h>

#include "base/moment.h"
#include "regions/reap_hold.h"
#include "regions/reaps.h"
#include "regions/record_list.h"
#include "regions/scopes.h"

namespace strata {

Lock g_tree{LockRank::kControl};

namespace {

constinit RecordList<strata_reap> g_records;
// A fork may go along it while another thread has the tree, or takes some out.
std::atomic<strata_reap*> g_shared{nullptr};

// All under g_tree.
using Tree = layers::Family<strata_reap, &strata_reap::family>;

void ListShared(strata_reap* reap) STRATA_REQUIRES(g_tree) {
  reap->buried = false;
  if (reap->listed.load(std::memory_order_relaxed)) return;
  reap->listed.store(true, std::memory_order_relaxed);
  reap->next_shared.store(g_shared.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // release: pairs with the acquire in VisitShared.
  g_shared.store(reap, std::memory_order_release);
}

// So that forks do not pay for all that ever were. By the thread that forks, which has none of
// their locks. Whoever is at one goes on by its next, or anew if it is listed again.
void UnlistBuried() STRATA_REQUIRES(g_tree) {
  std::atomic<strata_reap*>* link = &g_shared;
  while (strata_reap* r = link->load(std::memory_order_relaxed)) {
    if (!r->buried) {
      link = &r->next_shared;
      continue;
    }
    link->store(r->next_shared.load(std::memory_order_relaxed), std::memory_order_release);
    r->listed.store(false, std::memory_order_relaxed);
  }
}

// All that are shared reaps, and some that were.
template <class F>
void VisitShared(F f) {
  // acquire: pairs with the release in ListShared and UnlistBuried.
  for (strata_reap* r = g_shared.load(std::memory_order_acquire); r != nullptr;
       r = r->next_shared.load(std::memory_order_acquire))
    f(r);
}

// Of one that was not listed, a fork's child leaves the lock as it is: it may be that of a thread
// which looked at an ended reap, and is not there. Such a record is left for good.
strata_reap* TakeRecord(UsedBy users) {
  for (;;) {
    strata_reap* reap = g_records.Take();
    if (reap == nullptr || users == UsedBy::kOneThread ||
        reap->listed.load(std::memory_order_relaxed))
      return reap;
    if (WithinAMoment([reap] { return reap->lock.IsFree(); })) return reap;
  }
}

// A reap ends in three steps, so that its memory goes back without g_tree: it leaves the tree and
// is gone for all others; its heap ends; its record is free.
class Ended {
 public:
  // The children that are kept go to the parent.
  void Add(strata_reap* reap) STRATA_REQUIRES(g_tree) {
    while (strata_reap* child = reap->family.first_child) {
      Tree::Leave(child);
      Tree::Join(child, reap->family.parent);
    }
    Tree::Leave(reap);
    {
      const Hold hold(reap);
      if (reap->shared) reap->lock.Forbid();
      reap->state.store(strata_reap::kGone, std::memory_order_relaxed);
      ++reap->ended;
    }
    reap->next = first_;
    first_ = reap;
  }
  // With g_tree held over the emptying of those that are kept, for their owners may end them at
  // any time.
  void AddBelow(strata_reap* top) STRATA_REQUIRES(g_tree) {
    Tree::VisitBelow(top, [this](strata_reap* at) STRATA_NO_TSA {
      if (at->kept) {
        const Hold hold(at);
        at->heap.clear();
      } else {
        Add(at);
      }
    });
  }
  // One that is in no tree, and in no other thread's sight.
  void AddLone(strata_reap* reap) {
    reap->state.store(strata_reap::kGone, std::memory_order_relaxed);
    ++reap->ended;
    reap->next = first_;
    first_ = reap;
  }

  void Bury() STRATA_EXCLUDES(g_tree) {
    if (first_ == nullptr) return;
    for (strata_reap* r = first_; r != nullptr; r = r->next) {
      {
        const Hold hold(r);
        r->heap.~ReapHeap();
        ::new (&r->heap) ReapHeap();
      }
      DropScope(r->scope);
    }
    LockHolder tree(g_tree);
    while (strata_reap* r = first_) {
      first_ = r->next;
      r->buried = true;
      g_records.Give(r);
    }
  }

 private:
  strata_reap* first_ = nullptr;
};

// What the last life of a record left, save for its lock.
void Renew(strata_reap* reap) {
  reap->shared = reap->retired = reap->kept = false;
  reap->placement = {};
  reap->reached = nullptr;
  reap->family = {};
}

bool IsAlone(const strata_reap* reap) {
  return !reap->shared && reap->family.parent == nullptr && reap->family.first_child == nullptr;
}

}  // namespace

strata_reap* CreateReap(strata_reap* parent, UsedBy users, strata_scope* scope) {
  if (parent != nullptr && !ExpectReap(parent)) return nullptr;
  strata_reap* reap = TakeRecord(users);
  if (reap == nullptr) return nullptr;
  Renew(reap);
  reap->heap.set_owner(reap);
  const bool shared = users == UsedBy::kThreads;
  reap->shared = shared;
  if (shared) {
    reap->heap.shut_window();
    if (scope != nullptr && NextScopeMayBeBiased()) reap->lock.Allow();
  }
  reap->scope.store(scope, std::memory_order_relaxed);
  // release: pairs with the acquire in IsStill.
  reap->state.store(strata_reap::kLive, std::memory_order_release);
  if (parent == nullptr && !shared) return reap;
  LockHolder hold(g_tree);
  if (shared) ListShared(reap);
  Tree::Join(reap, parent);
  return reap;
}

void ClearReap(strata_reap* reap) {
  // One that a single thread uses gets no children meanwhile.
  if (!reap->shared && reap->family.first_child == nullptr) return reap->heap.clear();
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
  if (Tree::IsWithin(parent, reap)) return EINVAL;
  Tree::Leave(reap);
  Tree::Join(reap, parent);
  return 0;
}

bool HoldsReapLock() {
  bool holds = g_tree.HeldByThisThread();
  VisitShared([&holds](strata_reap* r) { holds |= r->lock.HeldBy(ThisThread()); });
  return holds;
}

bool LockReaps(AtHeldLock at) STRATA_NO_TSA {
  const bool passes = at == AtHeldLock::kPassBy;
  bool all = g_tree.AcquireForFork(Lock::ForkWait::kAMoment), owned = false;
  if (all && !passes) UnlistBuried();
  const auto visit = [&](auto f) STRATA_NO_TSA {
    VisitShared([&](strata_reap* r) STRATA_NO_TSA {
      if ((all || passes) && IsLiveReap(r)) all &= WithinAMoment([&] { return f(r->lock); });
    });
  };
  visit([&](ReapLock& l) {
    const bool locked = l.TryLockForFork(ThisThread());
    owned |= locked && l.SuspendsOwner();
    return locked;
  });
  if (owned) {
    ReapSync::Fence();
    visit([](ReapLock& l) { return l.OwnerIsOut(); });
  }
  if (all || passes) layers::FutexLock::begin_fork();
  return all;
}
// Those that ended meanwhile, too: by a fork handler of the program's, which passes through.
void UnlockReaps() STRATA_NO_TSA {
  if (layers::FutexLock::this_thread_forks()) layers::FutexLock::end_fork();
  VisitShared([](strata_reap* r) STRATA_NO_TSA { r->lock.UnlockAfterFork(); });
  g_tree.ReleaseAfterFork();
}
void UnlockReapsInForkedChild() STRATA_NO_TSA {
  layers::FutexLock::end_fork();
  VisitShared([](strata_reap* r) STRATA_NO_TSA { r->lock.UnlockInForkedChild(ThisThread()); });
  g_tree.ReleaseInForkedChild();
}

}  // namespace strata
