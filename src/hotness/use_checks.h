// Checks of how a program uses objects that move: in a checked domain each object has pages of its
// own, every operation lists what it uses, and what it used moves when it ends. The old place is
// shut for a while, so a reference that was kept faults, and so does one to an object that was
// freed. Sits in hotness; regions/stale_use.h turns the fault into a message.
//
// With bounds only the first objects and operations are checked: what an optimised build that keeps
// its assertions can bear.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "hotness/block_pool.h"
#include "hotness/hot_shelf.h"

namespace strata {

enum class CheckBounds : uint8_t { kEverything, kTheFirst };

class UseChecks final : public Quarantine {
 public:
  static constexpr size_t kKept = 512;
  static constexpr uint32_t kBoundedObjects = 1024, kBoundedOperations = 20'000;

  UseChecks(BlockPool& pool, CheckBounds bounds) : pool_(pool), bounds_(bounds) {}

  bool bounded() const { return bounds_ == CheckBounds::kTheFirst; }
  // Whether the object to be made takes pages of its own.
  bool TakesPages() {
    return !bounded() || (objects_.load(std::memory_order_relaxed) < kBoundedObjects &&
                          objects_.fetch_add(1, std::memory_order_relaxed) < kBoundedObjects);
  }

  // Around the moves at an operation's end. False: it is one too many, and is not checked.
  bool BeginMoves() {
    moving_.fetch_add(1, std::memory_order_seq_cst);
    if (!bounded() || operations_.fetch_add(1, std::memory_order_seq_cst) < kBoundedOperations)
      return true;
    EndMoves();
    return false;
  }
  void EndMoves() { moving_.fetch_sub(1, std::memory_order_release); }
  bool spent() const {
    return bounded() && operations_.load(std::memory_order_seq_cst) > kBoundedOperations;
  }
  // Spent, and no moves are left: operations need not list what they use any more.
  bool Over() const { return spent() && moving_.load(std::memory_order_seq_cst) == 0; }

  void Put(HotShelf& shelf, HotBlock* b, uint32_t i) override {
    b->owners[i].Unlock(OwnerWord::kRetired);
    Shut(b, i, PageAdvice::kShut);
    shelf.quarantined.fetch_add(1, std::memory_order_relaxed);
    LockHolder hold(lock_);
    if (count_ == kKept)
      Release(kept_[next_]);
    else
      ++count_;
    kept_[next_] = {&shelf, b, i};
    next_ = (next_ + 1) % kKept;
  }

  void ReleaseAll() {
    LockHolder hold(lock_);
    for (size_t i = 0; i < count_; ++i) Release(kept_[(next_ + kKept - count_ + i) % kKept]);
    count_ = 0;
  }

  // Of the object whose old place the address lies in: its type's name, or null. Without a lock,
  // from a signal handler: what it reads stays in place.
  const char* TypeAt(uintptr_t address) const {
    for (const Entry& e : kept_) {
      if (e.block == nullptr) continue;
      const uintptr_t at = e.block->AddressOf(e.index);
      if (address - at >= e.block->SizeOfObjects()) continue;
      const strata_hot_type* type = e.shelf->type;
      return type == nullptr || type->name == nullptr ? "" : type->name;
    }
    return nullptr;
  }

  // For another domain in the place of one that has ended.
  void Renew() {
    objects_.store(0, std::memory_order_relaxed);
    operations_.store(0, std::memory_order_relaxed);
  }

  Lock& lock() { return lock_; }

 private:
  struct Entry {
    HotShelf* shelf = nullptr;
    HotBlock* block = nullptr;
    uint32_t index = 0;
  };

  void Shut(HotBlock* b, uint32_t i, PageAdvice how) {
    pool_.Advise(reinterpret_cast<void*>(b->AddressOf(i)), b->SizeOfObjects(), how);
  }
  void Release(Entry& e) STRATA_REQUIRES(lock_) {
    Shut(e.block, e.index, PageAdvice::kOpen);
    e.block->owners[e.index].Lock();
    e.shelf->FreeNow(e.block, e.index);
    e.shelf->quarantined.fetch_sub(1, std::memory_order_relaxed);
    e = {};
  }

  BlockPool& pool_;
  const CheckBounds bounds_;
  std::atomic<uint32_t> objects_{0}, operations_{0}, moving_{0};
  Lock lock_{LockRank::kHotDomain};
  std::array<Entry, kKept> kept_{};
  size_t next_ STRATA_GUARDED_BY(lock_) = 0;
  size_t count_ STRATA_GUARDED_BY(lock_) = 0;
};

}  // namespace strata
