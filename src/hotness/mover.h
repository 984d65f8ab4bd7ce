// The move of one object while others use its guide. Only in an epoch in which every operation
// lists what it uses (scope_table.h). Sits in hotness; tests/hotness/move_model_test.cpp checks the
// protocol in all interleavings.
//
//   collector                               reader
//   1 locks the owner's word                1 loads the guide
//   2 sets the guide's lock                 2 lists the object
//   3 looks whether an operation lists it   3 loads the guide again: another address, from 1;
//   4 copies                                  locked: takes the lock away
//   5 exchanges the guide for the copy's
//     address, if it is as step 2 left it
//
// 2 before 3 on both sides, seq_cst: either the collector finds the object listed, or the reader
// finds the lock. It takes it away, so step 5 fails and the copy is dropped, or finds the new
// address. The old object is free at once after step 5: nobody who listed it has used it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/race_detector.h"
#include "hotness/block_pool.h"
#include "hotness/guide.h"
#include "hotness/hot_block.h"
#include "hotness/hot_shelf.h"
#include "hotness/owners.h"
#include "hotness/scope_table.h"

namespace strata {

enum class MoveResult : uint8_t { kMoved, kInUse, kUsed, kNoMemory, kNearLimit, kGone };

// A reader may take the lock away and write while this reads; what was copied is dropped then.
__attribute__((no_sanitize("thread"))) inline void CopyObject(void* to, const void* from,
                                                              size_t bytes) {
  if (!race_detector::IsThere()) {
    __builtin_memcpy(to, from, bytes);
    return;
  }
  auto* t = static_cast<volatile char*>(to);
  auto* f = static_cast<const volatile char*>(from);
  for (size_t i = 0; i < bytes; ++i) t[i] = f[i];
}

class Mover {
 public:
  Mover(BlockPool& pool, const ScopeTable& scopes) : pool_(pool), owners_(pool), scopes_(scopes) {}

  // Into another heap's shelf of that size and type, or into another block of the same.
  MoveResult Move(HotBlock* b, uint32_t i, HotShelf& target, MayGrow grow) {
    OwnerWord& old_owner = b->owners[i];
    const uintptr_t owner = old_owner.Load();
    if (!OwnerWord::IsGuide(owner) || !old_owner.TryLock(owner)) return MoveResult::kGone;
    GuideRef g(reinterpret_cast<strata_hot_guide*>(owner));
    const uintptr_t object = b->AddressOf(i);
    GuideWord w = g.Load();
    if (w.address() != object) return LeaveIt(old_owner, owner, nullptr, MoveResult::kGone);
    void* const copy = target.Allocate(pool_, b->SizeOfObjects(), grow);
    if (copy == nullptr) {
      return LeaveIt(old_owner, owner, nullptr,
                     grow == MayGrow::kNo ? MoveResult::kNearLimit : MoveResult::kNoMemory);
    }

    const strata_hot_type* const type = target.type;
    const bool by_type = type != nullptr && type->move != nullptr;
    const uint64_t bits = GuideWord::kLock | (by_type ? GuideWord::kHeld : 0);
    while (!g.Exchange(w, w.With(bits))) {  // uses may be noted meanwhile
      if (w.address() != object) return LeaveIt(old_owner, owner, copy, MoveResult::kGone);
    }
    w = w.With(bits);
    if (scopes_.InUse(object)) {
      while (w.locked() && !g.Exchange(w, w.Without(bits))) {
      }
      return LeaveIt(old_owner, owner, copy, MoveResult::kInUse);
    }
    void* const from = reinterpret_cast<void*>(object);
    race_detector::After(&target.domain);
    if (by_type) {
      type->move(copy, from, target.object_bytes);
    } else {
      CopyObject(copy, from, target.object_bytes);
    }
    const ObjectPlace to = owners_.Find(copy);
    to.owner().Store(owner | OwnerWord::kLock);  // before anyone can find it
    race_detector::Before(&target.domain);
    race_detector::Before(reinterpret_cast<void*>(owner));
    if (!g.Exchange(w, w.Without(bits).At(copy, target.heap)))
      return LeaveIt(old_owner, owner, copy, MoveResult::kUsed);
    b->shelf.load(std::memory_order_relaxed)->Free(b, i);
    to.owner().Unlock(owner);
    return MoveResult::kMoved;
  }

 private:
  MoveResult LeaveIt(OwnerWord& word, uintptr_t owner, void* copy, MoveResult why) {
    if (copy != nullptr) {
      const ObjectPlace at = owners_.Find(copy);
      if ((at.owner().Load() & OwnerWord::kLock) == 0) at.owner().Lock();
      at.block->shelf.load(std::memory_order_relaxed)->Free(at.block, at.index);
    }
    word.Unlock(owner);
    return why;
  }

  BlockPool& pool_;
  Owners owners_;
  const ScopeTable& scopes_;
};

}  // namespace strata
