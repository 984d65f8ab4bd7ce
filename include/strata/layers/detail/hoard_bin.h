// One heap's superblocks of one size class: Hoard's u and a, counted in objects, so that neither a
// superblock's record nor the end that no object fits into stands between a full heap and "full".
// All under the bin's lock.
#pragma once

#include <algorithm>

#include "strata/layers/detail/emptiness_groups.h"
#include "strata/layers/detail/superblock.h"

namespace strata::layers {

struct HoardThresholds {
  // f, in sixteenths, 1 to 15: the quarter of Berger et al. (ASPLOS 2000) is 4. Whole ones, because
  // then everything on the emptiest list is at least f empty when the average is.
  uint32_t empty_sixteenths = 4;
  size_t slack = 4;  // K, at least 1
  // Or as many objects, where a superblock holds few: K of those would come and go all the time.
  size_t slack_objects = 0;
};

// A processor's heap keeps the invariant
//
//   u >= a - max(K * (objects in a superblock), slack_objects)   or   u >= (1 - f) * a
//
// by parting with a superblock that is at least f empty when a free has broken it (Hoard, ASPLOS
// 2000, section 3). There always is one: the average is more than f empty then. K is for
// superblocks in use: one that comes empty leaves at once, for another class may need it, but for a
// few in each heap.
template <size_t kUnit, class Sync>
struct alignas(128) HoardBin {
  using Block = Superblock<kUnit, HoardBin, Sync>;

  void Add(Block& s) {
    groups.Add(s);
    used += s.used();
    capacity += s.capacity();
  }
  void Remove(Block& s) {
    groups.Remove(s);
    used -= s.used();
    capacity -= s.capacity();
  }
  void* Allocate(Block& s) {
    void* p = s.Pop();
    ++used;
    groups.Moved(s);
    return p;
  }
  size_t AllocateTo(internal::BlockStack& to, Block& s, size_t n) {
    n = s.PopTo(to, n);
    used += n;
    groups.Moved(s);
    return n;
  }
  void Free(Block& s, void* p) {
    s.Push(p);
    --used;
    groups.Moved(s);
  }
  void Free(Block& s, const internal::BlockChain& chain) {
    s.Push(chain);
    used -= chain.count;
    groups.Moved(s);
  }
  // The emptiest superblock, for another processor's heap; null if this one has less than half of
  // one free, or its emptiest is not empty enough. One that is less than f empty must stay: without
  // it the heap could come to be too empty.
  Block* Lend(const HoardThresholds& t) {
    Block* s = groups.Emptiest();
    if (s == nullptr || 2 * (capacity - used) < s->capacity()) return nullptr;
    const size_t empty = std::max(kLentSixteenths, t.empty_sixteenths);
    if (16 * size_t{s->used()} > (16 - empty) * s->capacity()) return nullptr;
    Remove(*s);
    return s;
  }
  // Whether the invariant is broken.
  bool TooEmpty(const HoardThresholds& t, size_t objects) const {
    static_assert(Block::kParts == 16);
    return used + std::max(t.slack * objects, t.slack_objects) < capacity &&
           16 * used < (16 - t.empty_sixteenths) * capacity;
  }

  // A superblock that is fuller is not worth the cache lines that two processors come to share.
  static constexpr uint32_t kLentSixteenths = 4;

  typename Sync::Lock lock;
  bool global = false;
  bool keeps_empty = false;  // one superblock, and it is empty
  EmptinessGroups<Block> groups;
  size_t used = 0;      // u
  size_t capacity = 0;  // a
};

// Locks the bin that owns a superblock. The owner may change before the lock is ours, and only the
// lock keeps it from changing, so it is looked at again; each turn that fails means that another
// thread has moved the superblock meanwhile. The bin that was read is always a bin: they live as
// long as the heap. And the superblock stays one: it holds the object that is being freed.
struct RecheckedOwner {
  template <class S>
  static auto* Lock(S& s) {
    for (;;) {
      auto* bin = s.owner();
      bin->lock.lock();
      if (s.owner() == bin) return bin;
      bin->lock.unlock();
    }
  }
};

}  // namespace strata::layers
