// A domain: three heaps of objects that move, the operations that use them, and the objects that
// wait for operations to end. What moves and when is the collector's (object_collector.h). Sits in
// hotness; a process makes them through strata/hot.h, tests over a fake memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/lock.h"
#include "hotness/block_pool.h"
#include "hotness/guide.h"
#include "hotness/hot_shelf.h"
#include "hotness/owners.h"
#include "hotness/scope_table.h"
#include "hotness/use_checks.h"
#include "span/size_classes.h"
#include "strata/hot.h"

namespace strata {

class HotDomain {
 public:
  // scopes: zeroed room for ScopeTable::kSlots.
  HotDomain(BlockPool& pool, ScopeSlot* scopes) : pool_(pool), owners_(pool), scopes_(scopes) {}
  HotDomain(const HotDomain&) = delete;
  HotDomain& operator=(const HotDomain&) = delete;

  // Of nobody's; null: no memory, or an alignment above 4 KiB.
  void* Allocate(size_t size, size_t alignment, const strata_hot_type* type,
                 HotHeap heap = HotHeap::kNew);

  // While nothing is in it: every operation lists what it uses, and that moves when it ends.
  // Without memory for that nothing is checked.
  void CheckUses(CheckBounds bounds);
  void EndQuarantine();
  // Another domain begins in the place of this one, which has ended; shelves and checks stay.
  // Checks that are wanted and had no memory are asked for again.
  void Renew(std::optional<CheckBounds> checks);
  // See UseChecks.
  const char* StaleTypeAt(uintptr_t address) const {
    return checks_ == nullptr ? nullptr : checks_->TypeAt(address);
  }
  // Whether operations list what they use outside of epochs, too.
  bool always_lists() const { return checks_ != nullptr && !checks_->Over(); }

  // Operations.
  void Enter(strata_hot_scope* scope);
  static void Leave(strata_hot_scope* scope);
  static void* GetSlow(strata_hot_scope* scope, strata_hot_guide* guide);

  // See strata_hot_exchange and strata_hot_retire.
  bool Exchange(strata_hot_guide* guide, void* expected, void* object);
  void Retire(void* object);
  // Frees what no operation can use any more.
  void FreeRetired();
  size_t retired_waiting() const { return retired_.load(std::memory_order_relaxed); }

  // The shelf for objects of a type in blocks of that size; null: no memory.
  HotShelf* ShelfFor(HotHeap heap, uint32_t object_bytes, const strata_hot_type* type);
  template <class F>
  void ForEachShelf(HotHeap heap, F f) {
    for (std::atomic<HotShelf*>& list : shelves_[static_cast<int>(heap)]) {
      for (HotShelf* s = list.load(std::memory_order_acquire); s != nullptr; s = s->next) f(*s);
    }
  }
  struct Held {
    size_t objects = 0, bytes = 0;
  };
  Held HeldIn(HotHeap heap);
  // And what of it is resident, which asks the kernel.
  strata_hot_heap_stats HeapStats(HotHeap heap);
  // The first of them, for the message that a domain goes too early; nothing: 0.
  size_t LiveObjects(ObjectPlace* first);

  BlockPool& pool() { return pool_; }
  Owners& owners() { return owners_; }
  ScopeTable& scopes() { return scopes_; }
  Lock& lock() { return shelves_lock_; }
  // Null where nothing is checked. Taken before that of a shelf.
  Lock* checks_lock() { return checks_ == nullptr ? nullptr : &checks_->lock(); }

  // In the child of a fork; all locks are held by the thread that forked.
  void RenewInChild();

 private:
  void RetireLocked(const ObjectPlace& at, void* object);
  void FreeList(uintptr_t object);
  static bool IsOfPages(const HotShelf& s) { return s.object_bytes % kNativePageSize == 0; }
  void LeaveChecked(ScopeSlot* slot);
  void NoteRepeat(ScopeSlot* slot) const;

  BlockPool& pool_;
  Owners owners_;
  ScopeTable scopes_;
  UseChecks* checks_ = nullptr;
  Lock shelves_lock_{LockRank::kHotDomain};  // while a shelf is put in
  std::atomic<HotShelf*> shelves_[kHotHeaps][kMaxClasses] = {};
  // Lists through the owners' words, by the era in which the object was retired.
  static constexpr int kEras = 3;
  std::atomic<uintptr_t> limbo_[kEras] = {};
  std::atomic<size_t> retired_{0};
  std::atomic<uint32_t> since_free_{0};
  std::atomic<bool> freeing_{false};
};

}  // namespace strata
