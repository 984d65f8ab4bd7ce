// A shelf: the blocks of one heap of a domain that hold objects of one size and type. Objects come
// from the fullest blocks, so that the others empty, but cold ones from fresh ones: a hole between
// objects that were paged out would bring its page back. Sits in hotness.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/race_detector.h"
#include "hotness/block_pool.h"
#include "hotness/guide.h"
#include "hotness/hot_block.h"
#include "strata/hot.h"

namespace strata {

class HotDomain;
struct HotShelf;

// Where objects go that were freed or have moved, in a domain that is checked.
class Quarantine {
 public:
  // The owner's word is locked.
  virtual void Put(HotShelf& shelf, HotBlock* b, uint32_t i) = 0;

 protected:
  ~Quarantine() = default;
};

// Whether a shelf may take memory that it has not.
enum class MayGrow : bool { kNo, kYes };

struct HotShelf {
  HotShelf(HotDomain& of, HotHeap h, uint32_t bytes, const strata_hot_type* t)
      : domain(of), heap(h), object_bytes(bytes), type(t) {}

  HotDomain& domain;
  const HotHeap heap;
  const uint32_t object_bytes;  // 0: large objects, a block each
  const strata_hot_type* const type;
  HotShelf* next = nullptr;  // of the same heap and size, another type; set before it is seen

  Quarantine* quarantine = nullptr;    // where checks are on; set before it has objects
  std::atomic<size_t> quarantined{0};  // objects that count as live, though they are not
  uint64_t refused_in = 0;             // the collector's: the round that found no room here

  Lock lock{LockRank::kHotShelf};
  // Blocks are put first under the lock, and taken out by the collector alone: so it walks them
  // without.
  std::atomic<HotBlock*> first{nullptr};
  HotBlock* current STRATA_GUARDED_BY(lock) = nullptr;
  std::atomic<size_t> objects{0};     // live; written under the lock
  std::atomic<size_t> capacity{0};    // of the blocks; written under the lock
  std::atomic<size_t> live_bytes{0};  // of large objects; the others are a product

  size_t Live() const {
    return objects.load(std::memory_order_relaxed) - quarantined.load(std::memory_order_relaxed);
  }

  // An object that belongs to nobody, or null. size: of a large one.
  void* Allocate(BlockPool& pool, size_t size, MayGrow grow) {
    LockHolder hold(lock);
    if (object_bytes == 0) return AllocateLarge(pool, size, grow);
    if (current == nullptr || current->draining ||
        current->used.load(std::memory_order_relaxed) == current->objects) {
      current = Next(pool, grow);
      if (current == nullptr) return nullptr;
    }
    return TakeFrom(current);
  }

  // Whose owner's word the caller has locked.
  void Free(HotBlock* b, uint32_t i) {
    if (STRATA_UNLIKELY(quarantine != nullptr)) return quarantine->Put(*this, b, i);
    FreeNow(b, i);
  }
  void FreeNow(HotBlock* b, uint32_t i) {
    race_detector::Before(b);
    LockHolder hold(lock);
    b->owners[i].Store(OwnerWord::kFree);
    b->free[i / 64] |= uint64_t{1} << i % 64;
    if (i < b->hint) b->hint = i;
    b->paged_out = false;  // a cold object that was used has brought its page back
    b->used.store(b->used.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    Add(objects, size_t{0} - 1);
    if (object_bytes == 0) Add(live_bytes, size_t{0} - b->bytes.load(std::memory_order_relaxed));
  }

  // The collector's. Takes out what is empty, but for `keep` of them and the one it stands at;
  // f(block) gives each back.
  template <class F>
  void TakeOutEmpty(uint32_t keep, const HotBlock* here, F f) {
    lock.Acquire();
    HotBlock* empty = nullptr;
    HotBlock* before = nullptr;
    for (HotBlock* b = first.load(std::memory_order_relaxed); b != nullptr;) {
      HotBlock* const after = b->next;
      if (b->used.load(std::memory_order_relaxed) != 0 || b == here || (keep > 0 && keep-- > 0)) {
        before = b;
      } else {
        if (before == nullptr)
          first.store(after, std::memory_order_release);
        else
          before->next = after;
        if (current == b) current = nullptr;
        Add(capacity, size_t{0} - b->objects);
        b->next = empty;
        empty = b;
      }
      b = after;
    }
    lock.Release();
    while (empty != nullptr) {
      HotBlock* const b = empty;
      empty = b->next;
      f(b);
    }
  }

  // The collector's, for a large object that changes its heap.
  void TakeOut(HotBlock* b) {
    LockHolder hold(lock);
    if (current == b) current = nullptr;
    if (first.load(std::memory_order_relaxed) == b) {
      first.store(b->next, std::memory_order_release);
    } else {
      HotBlock* before = first.load(std::memory_order_relaxed);
      while (before->next != b) before = before->next;
      before->next = b->next;
    }
    Add(capacity, size_t{0} - b->objects);
    Add(objects, size_t{0} - b->used.load(std::memory_order_relaxed));
    Add(live_bytes, size_t{0} - b->bytes.load(std::memory_order_relaxed));
  }
  void PutIn(HotBlock* b) {
    LockHolder hold(lock);
    PutFirst(b);
    b->paged_out = false;
    Add(objects, b->used.load(std::memory_order_relaxed));
    Add(live_bytes, b->bytes.load(std::memory_order_relaxed));
  }

  // Nothing comes into the block until EndDraining; false where that is so already.
  bool BeginDraining(HotBlock* b) {
    LockHolder hold(lock);
    if (b->draining) return false;
    return b->draining = true;
  }
  void EndDraining() {
    LockHolder hold(lock);
    for (HotBlock* b = first.load(std::memory_order_relaxed); b != nullptr; b = b->next)
      b->draining = false;
  }

  // Whether there is anything in the block to give advice on: something that came in since it was
  // last paged out. Noted before the pages go, as more may come in meanwhile.
  bool MarkAdvised(HotBlock* b, bool paged_out) {
    LockHolder hold(lock);
    if (b->paged_out || b->used.load(std::memory_order_relaxed) == 0) return false;
    b->paged_out = paged_out;
    return true;
  }
  void MarkRefused(HotBlock* b) {
    LockHolder hold(lock);
    b->paged_out = false;
  }

 private:
  static void Add(std::atomic<size_t>& n, size_t by) {
    n.store(n.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  void* TakeFrom(HotBlock* b) STRATA_REQUIRES(lock) {
    race_detector::After(b);
    uint32_t word = b->hint / 64;
    while (b->free[word] == 0) ++word;
    const auto i = word * 64 + static_cast<uint32_t>(__builtin_ctzll(b->free[word]));
    b->free[word] &= b->free[word] - 1;
    b->hint = i + 1;
    b->used.store(b->used.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (i >= b->top.load(std::memory_order_relaxed)) b->top.store(i + 1, std::memory_order_release);
    b->owners[i].Store(OwnerWord::kNobody);
    Add(objects, 1);
    b->paged_out = false;
    return reinterpret_cast<void*>(b->AddressOf(i));
  }

  void* AllocateLarge(BlockPool& pool, size_t size, MayGrow grow) STRATA_REQUIRES(lock) {
    if (grow == MayGrow::kNo) return nullptr;
    HotBlock* b = pool.Take(*this, 0, size, heap);
    if (b == nullptr) return nullptr;
    PutFirst(b);
    Add(live_bytes, b->bytes.load(std::memory_order_relaxed));
    return TakeFrom(b);
  }

  void PutFirst(HotBlock* b) STRATA_REQUIRES(lock) {
    b->next = first.load(std::memory_order_relaxed);
    first.store(b, std::memory_order_release);
    Add(capacity, b->objects);
  }

  // One with room: see above.
  HotBlock* Next(BlockPool& pool, MayGrow grow) STRATA_REQUIRES(lock) {
    const size_t live = objects.load(std::memory_order_relaxed);
    const size_t room = capacity.load(std::memory_order_relaxed) - live;
    const bool reuse = room > 0 && (heap != HotHeap::kCold || room > live / 3);
    HotBlock* best = reuse || grow == MayGrow::kNo ? Best() : nullptr;
    if (best != nullptr || grow == MayGrow::kNo) return best;
    HotBlock* b = pool.Take(*this, object_bytes, HotBlock::kBytes, heap);
    if (b == nullptr) return Best();
    PutFirst(b);
    return b;
  }

  // The fullest with room; of cold ones the emptiest.
  HotBlock* Best() STRATA_REQUIRES(lock) {
    HotBlock* best = nullptr;
    for (HotBlock* b = first.load(std::memory_order_relaxed); b != nullptr; b = b->next) {
      const uint32_t used = b->used.load(std::memory_order_relaxed);
      if (used == b->objects || b->draining) continue;
      const uint32_t most = best == nullptr ? 0 : best->used.load(std::memory_order_relaxed);
      if (best == nullptr || (heap == HotHeap::kCold ? used < most : used > most)) best = b;
    }
    return best;
  }
};

}  // namespace strata
