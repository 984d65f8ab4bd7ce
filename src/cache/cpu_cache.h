// The front end: one cache a virtual CPU, over the slabs of cache/slab.h. This file is its slow
// half: what happens on a miss (refill, overflow, growth under the vCPU's limit by taking room from
// other classes). Sits in cache; papers §2.8, §4; design §3.
//
// Thread-safe. A class's room on a vCPU changes under that vCPU's lock; the fast half takes no
// lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/cache_reserve.h"
#include "cache/cache_resizer.h"
#include "cache/rseq_ops.h"
#include "cache/slab.h"
#include "span/size_classes.h"

namespace strata {

enum class CacheSizing : bool { kEqual, kByMisses };

struct CpuCacheVcpuStats {
  bool in_use = false;
  size_t room = 0;     // bytes its classes have room for
  size_t used = 0;     // bytes of the objects in it
  size_t reserve = 0;  // the part of both that lies beyond the slab's slots
  size_t limit = 0;    // bytes its classes may have room for
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;
  uint64_t resizes = 0;  // changes of the limit
};

struct CpuCacheClassStats {
  size_t objects = 0;
  uint64_t pops = 0;  // hits, and the refills' own pops never count
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;
};

// Ops runs on the calling thread's vCPU: Pop, Push, PopBatch, PushBatch as in rseq_ops.h, size_t
// vcpu(), bool IsOn(vcpu), bool MayFence(), bool Fence(). Transfer: Take and Give of batches.
template <class Ops, class Transfer>
class CpuCache {
 public:
  // `slabs` is zeroed memory for max_vcpus slabs. Returns false when memory for its own records is
  // refused.
  bool Init(const Ops& ops, Transfer* transfer, MetadataArena* arena, void* slabs, size_t max_vcpus,
            size_t share_bytes, CacheSizing sizing = CacheSizing::kByMisses) {
    LockHolder hold(vcpus_lock_);  // nobody is here yet
    ops_ = ops;
    transfer_ = transfer;
    slabs_ = static_cast<char*>(slabs);
    max_vcpus_ = max_vcpus;
    share_ = share_bytes;
    adaptive_ = sizing == CacheSizing::kByMisses;
    arena_ = arena;
    states_ = static_cast<CacheState*>(arena->Allocate(max_vcpus * sizeof(CacheState), 64));
    vcpus_ = static_cast<std::atomic<Vcpu*>*>(
        arena->Allocate(max_vcpus * sizeof(std::atomic<Vcpu*>), 64));
    return vcpus_ != nullptr && states_ != nullptr;
  }

  void* PopSlow(SizeClass c) {
    size_t want = 1;
    if (Vcpu* v = Current()) {
      NoteMiss(*v, v->misses_alloc, c);
      if (void* p = PopWithReserve(*v, c)) return p;
      MakeRoom(*v, c);
      const size_t room = RoomOf(*v, c);
      const size_t n = InfoOf(c).batch;
      // Half the room, so that a class whose objects come and go at random keeps space for frees.
      want = room / 2 + 1 < n ? room / 2 + 1 : n;
    }
    return want <= kFewOnStack ? Refill<kFewOnStack>(c, want) : Refill<kOnStack>(c, want);
  }

  // False, with nothing done, if the object is the newest here: it was freed before.
  bool PushSlow(SizeClass c, void* object) {
    size_t n = InfoOf(c).batch;
    if (Vcpu* v = Current()) {
      NoteMiss(*v, v->misses_free, c);
      if (MakeRoom(*v, c) && ops_.Push(c, object) == PushResult::kPushed) return true;
      const Reserved reserved = PushWithReserve(*v, c, object);
      if (reserved != Reserved::kNo) return reserved == Reserved::kYes;
      const size_t room = RoomOf(*v, c);
      n = room / 2 + 1 < n ? room / 2 + 1 : n;
    }
    return Overflow(c, object, n > 1 ? n - 1 : 1);
  }

  // --- What others do to a vCPU, whoever runs on it: cpu_cache_remote.h.

  // Empties the slab and takes all its room. Returns the bytes sent down.
  size_t Drain(size_t vcpu);
  void DrainAll() {
    for (size_t v = 0; v < max_vcpus_; ++v) Drain(v);
  }
  // Called once a tick for each vCPU: drains it if nothing was popped or pushed for `idle_ticks`
  // calls, and lets others have its part of the total.
  size_t DrainIfIdle(size_t vcpu, uint32_t idle_ticks);
  // Every so often (5 s): classes that nobody used since the last call lose their room, and the
  // caches with the most misses get some of what the others may hold. Nothing unless adaptive.
  void Resize();
  // Those that gave up their share while they rested and now need it have it back, from whoever has
  // more than a share: at once, not in Resize's small steps.
  void Repay();
  // Background thread, once a second.
  void Tick(uint32_t idle_ticks) {
    if (!ops_.MayFence()) return;
    for (size_t v = 0; v < max_vcpus_; ++v) DrainIfIdle(v, idle_ticks);
    Repay();
    if (++ticks_ % kTicksBetweenResizes == 0) Resize();
  }
  // Any thread: what each vCPU in use brings to the total, and whether they may share it unequally.
  // Both put every vCPU back to its share.
  void SetShare(size_t bytes);
  void SetSizing(CacheSizing sizing);

  CpuCacheClassStats Stats(SizeClass c) const {
    CpuCacheClassStats s;
    for (size_t i = 0; i < max_vcpus_; ++i) {
      const Vcpu* v = vcpus_[i].load(std::memory_order_acquire);
      if (v == nullptr) continue;
      SlabHeader& h = slab(i).header(c);
      const size_t fill = h.fill();
      s.objects += (fill > FirstSlot(c) ? fill - FirstSlot(c) : 0) + v->reserve.used(c);
      s.pops += h.pops();
      s.misses_alloc += v->misses_alloc[Raw(c)].load(std::memory_order_relaxed);
      s.misses_free += v->misses_free[Raw(c)].load(std::memory_order_relaxed);
    }
    return s;
  }

  size_t max_vcpus() const { return max_vcpus_; }
  size_t active_vcpus() const {
    size_t n = 0;
    for (size_t i = 0; i < max_vcpus_; ++i)
      n += vcpus_[i].load(std::memory_order_relaxed) != nullptr;
    return n;
  }
  size_t room_bytes(size_t vcpu) const {
    const Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
    return v == nullptr ? 0 : v->room_bytes.load(std::memory_order_relaxed);
  }
  // Invariant: the limits of all vCPUs and the pool together are at most the total, and the room of
  // a vCPU is at most its limit.
  size_t share() const { return share_.load(std::memory_order_relaxed); }
  size_t total() const { return share() * active_vcpus(); }
  size_t pool() const { return pool_.load(std::memory_order_relaxed); }
  size_t limit(size_t vcpu) const {
    const Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
    return v == nullptr ? 0 : v->limit.load(std::memory_order_relaxed);
  }
  // Of one that was ever used.
  CpuCacheVcpuStats StatsOf(size_t vcpu) const;
  const Ops& ops() const { return ops_; }
  void* slabs() const { return slabs_; }

  // For the fork handlers, which may release in the same order: a vCPU that appears meanwhile was
  // not taken, and is left alone.
  template <class F>
  void VisitLocks(F f) {
    f(vcpus_lock_);
    for (size_t i = 0; i < max_vcpus_; ++i) {
      if (Vcpu* v = vcpus_[i].load(std::memory_order_acquire)) f(v->lock);
    }
  }

 private:
  struct Vcpu {
    Lock lock{LockRank::kCpuCache};
    // Sum over classes of room × size, and the bytes in reserve; written under lock.
    std::atomic<size_t> room_bytes{0};
    std::atomic<size_t> limit{0};      // of room_bytes; written under lock
    std::atomic<uint64_t> resizes{0};  // the same
    uint32_t clock_hand = 1;       // the class looked at last when room had to be found; under lock
    uint32_t misses_at_limit = 0;  // under lock
    uint32_t idle_ticks = 0;       // background thread only
    uint64_t mark = 0;             // background thread only
    bool gave_up_share = false;    // it rested; under vcpus_lock_
    // Each class's word and misses as the last Resize saw them; under vcpus_lock_.
    uint64_t seen_word[kMaxClasses] = {};
    uint64_t seen_misses[kMaxClasses] = {};
    size_t index = 0;
    CacheReserve reserve;                               // under lock
    std::atomic<bool> missed_lately[kMaxClasses] = {};  // since the clock hand last passed
    std::atomic<uint64_t> misses_alloc[kMaxClasses] = {};
    std::atomic<uint64_t> misses_free[kMaxClasses] = {};
  };

  // Counts may lose a step when two threads of one vCPU race; they are statistics.
  static void Bump(std::atomic<uint64_t>& n) {
    n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  Slab& slab(size_t vcpu) const { return *reinterpret_cast<Slab*>(slabs_ + (vcpu << kSlabShift)); }

  Vcpu* Current() {
    const size_t i = ops_.vcpu();
    if (STRATA_UNLIKELY(i >= max_vcpus_)) return nullptr;
    Vcpu* v = vcpus_[i].load(std::memory_order_acquire);
    return STRATA_LIKELY(v != nullptr) ? v : Activate(i);
  }

  STRATA_NOINLINE Vcpu* Activate(size_t i) {
    LockHolder hold(vcpus_lock_);
    if (Vcpu* v = vcpus_[i].load(std::memory_order_acquire)) return v;
    Slab& s = slab(i);
    for (size_t c = 1; c < kNumClasses; ++c) {
      SlabHeader& h = s.header(static_cast<SizeClass>(c));
      h.begin.store(0xffff, std::memory_order_relaxed);
      h.word.store(FirstSlot(static_cast<SizeClass>(c)), std::memory_order_relaxed);
    }
    // A push that read the zero fill must not see room. Who runs here has pushed everybody else off
    // this vCPU, so their sequences start anew. Only then the record, which could not be given
    // back: a thread that has moved on comes here again at its next miss.
    if (!ops_.IsOn(i)) return nullptr;
    auto* v = arena_->New<Vcpu>();
    if (v == nullptr) return nullptr;
    v->index = i;
    v->limit = share();
    s.Init();
    vcpus_[i].store(v, std::memory_order_release);
    return v;
  }

  size_t RoomOf(const Vcpu& v, SizeClass c) const {
    const size_t end = slab(v.index).header(c).end.load(std::memory_order_relaxed);
    return end > FirstSlot(c) ? end - FirstSlot(c) : 0;
  }

  static size_t FillOf(const SlabHeader& h, SizeClass c) {
    const size_t fill = h.fill();
    return fill > FirstSlot(c) ? fill - FirstSlot(c) : 0;
  }

  static void NoteMiss(Vcpu& v, std::atomic<uint64_t>* misses, SizeClass c) {
    Bump(misses[Raw(c)]);
    v.missed_lately[Raw(c)].store(true, std::memory_order_relaxed);
  }

  // Gives the class some more room if its array and the vCPU's limit allow, taking it from other
  // classes where need be. Returns whether it grew.
  bool MakeRoom(Vcpu& v, SizeClass c) {
    const ClassInfo& info = InfoOf(c);
    if (RoomOf(v, c) >= info.cpu_slots) return false;
    if (!v.lock.TryAcquire()) return false;
    const size_t room = RoomOf(v, c);
    SlabHeader& h = slab(v.index).header(c);
    const size_t step = info.batch < 4 ? 1 : info.batch / 4;
    size_t grow = info.cpu_slots - room < step ? info.cpu_slots - room : step;
    // A stopped slab stays as it is: its drainer holds the lock, so we can't be here; an open one
    // has begin set.
    if (h.begin.load(std::memory_order_relaxed) == 0xffff) grow = 0;
    if (grow != 0 && v.room_bytes + grow * info.size > v.limit) ClaimFromPool(v);
    if (grow != 0 && v.room_bytes + grow * info.size > v.limit) {
      // At the limit most misses leave the division as it is, or two busy classes would take the
      // same room from each other at every miss. A class without any gets some at once, unless it
      // is one that can't have any here.
      constexpr uint32_t kMissesPerTaking = 16;
      uint32_t takings = room == 0 ? 8 : ++v.misses_at_limit % kMissesPerTaking == 0;
      if (info.size > v.limit) takings = 0;
      while (takings-- != 0 && v.room_bytes + info.size > v.limit) TakeRoomFromOthers(v, c);
      const size_t left = v.room_bytes >= v.limit ? 0 : (v.limit - v.room_bytes) / info.size;
      if (grow > left) grow = left;
    }
    if (grow != 0) {
      v.room_bytes += grow * info.size;
      h.end.store(static_cast<uint16_t>(FirstSlot(c) + room + grow), std::memory_order_relaxed);
    }
    v.lock.Release();
    return grow != 0;
  }

  // A vCPU that gave its part up while it rested has it back at once, as far as nobody took it.
  void ClaimFromPool(Vcpu& v) STRATA_REQUIRES(v.lock) {
    const size_t limit = v.limit.load(std::memory_order_relaxed);
    if (limit >= share() || pool() == 0) return;
    AddLimit(v, TakeFromPool(share() - limit));
  }
  void AddLimit(Vcpu& v, size_t bytes) STRATA_REQUIRES(v.lock) {
    if (bytes == 0) return;
    v.limit += bytes;
    ++v.resizes;
  }
  // Up to `most` bytes of what is nobody's.
  size_t TakeFromPool(size_t most) {
    size_t have = pool_.load(std::memory_order_relaxed);
    while (true) {
      const size_t take = have < most ? have : most;
      if (pool_.compare_exchange_weak(have, have - take, std::memory_order_relaxed)) return take;
    }
  }

  // Fetches `want` objects: one to return, the others for the slab.
  template <size_t kAtOnce>
  STRATA_NOINLINE void* Refill(SizeClass c, size_t want) {
    void* batch[kAtOnce];
    void* object = nullptr;
    while (want != 0) {
      const size_t n = want < kAtOnce ? want : kAtOnce;
      const size_t got = transfer_->Take(c, batch, n);
      size_t first = 0;
      if (object == nullptr && got != 0) object = batch[first++];
      const size_t kept = first == got ? 0 : ops_.PushBatch(c, batch + first, got - first);
      if (first + kept < got) transfer_->Give(c, batch + first + kept, got - first - kept);
      want = got < n || first + kept < got ? 0 : want - n;
    }
    return object;
  }

  // Sends the object and up to `wanted` others down.
  STRATA_NOINLINE bool Overflow(SizeClass c, void* object, size_t wanted) {
    void* batch[kOnStack];
    size_t popped = ops_.PopBatch(c, batch, wanted < kOnStack - 1 ? wanted : kOnStack - 1);
    if (popped != 0 && batch[popped - 1] == object) {
      const size_t kept = ops_.PushBatch(c, batch, popped);
      if (kept < popped) transfer_->Give(c, batch + kept, popped - kept);
      return false;
    }
    // With room for one only, the newer stays: else two frees in turn would always leave nothing.
    if (popped == 1 && ops_.Push(c, object) == PushResult::kPushed) {
      transfer_->Give(c, batch, 1);
      return true;
    }
    size_t given = popped;
    batch[popped++] = object;
    while (popped != 0) {
      transfer_->Give(c, batch, popped);
      const size_t left = given < wanted ? wanted - given : 0;
      popped = left == 0 ? 0 : ops_.PopBatch(c, batch, left < kOnStack ? left : kOnStack);
      given += popped;
    }
    return true;
  }

  enum class Reserved : uint8_t { kNo, kYes, kDouble };

  // Half of what a class's slots hold moves at once.
  static constexpr size_t ReserveBatch(SizeClass c) { return InfoOf(c).cpu_slots / 2; }

  // Makes space in the slab of a class that has all its slots, and pushes the object there, as far
  // as the limit allows. kDouble, with nothing done, if the object is the newest in the slab.
  Reserved PushWithReserve(Vcpu& v, SizeClass c, void* object) {
    const size_t n = ReserveBatch(c);
    const size_t size = InfoOf(c).size;
    if (v.reserve.used(c) + n > CacheReserve::CapacityOf(c)) return Reserved::kNo;
    if (RoomOf(v, c) < InfoOf(c).cpu_slots || !v.lock.TryAcquire()) return Reserved::kNo;
    Reserved result = Reserved::kNo;
    void** top = v.room_bytes + n * size <= v.limit ? v.reserve.Top(c, *arena_) : nullptr;
    if (top != nullptr) {
      const size_t moved = ops_.PopBatch(c, top, n);
      const bool is_double = moved != 0 && top[moved - 1] == object;
      v.reserve.Added(c, moved);
      size_t kept = moved;
      if (is_double) {
        // This thread may have moved to a vCPU without room for all of them.
        const size_t back = ops_.PushBatch(c, top, moved);
        v.reserve.Removed(c, moved, back);
        kept -= back;
        result = Reserved::kDouble;
      } else if (ops_.Push(c, object) == PushResult::kPushed) {
        result = Reserved::kYes;
      }
      v.room_bytes += kept * size;
    }
    v.lock.Release();
    return result;
  }

  // Fills half of the slab from the reserve, and returns one object more; null if it has none.
  void* PopWithReserve(Vcpu& v, SizeClass c) {
    if (v.reserve.used(c) == 0 || !v.lock.TryAcquire()) return nullptr;
    void* object = nullptr;
    const size_t have = v.reserve.used(c);
    if (have != 0) {
      object = *v.reserve.Newest(c, 1);
      v.reserve.Removed(c, 1, 1);
      const size_t n = have - 1 < ReserveBatch(c) ? have - 1 : ReserveBatch(c);
      const size_t moved = n == 0 ? 0 : ops_.PushBatch(c, v.reserve.Newest(c, n), n);
      v.reserve.Removed(c, n, moved);
      v.room_bytes -= (moved + 1) * InfoOf(c).size;
    }
    v.lock.Release();
    return object;
  }

  // Sends objects in reserve down, at least `bytes` of them if there are so many; of one class, or
  // (kNone) of any. Returns the bytes.
  size_t CutReserve(Vcpu& v, SizeClass only, size_t bytes) STRATA_REQUIRES(v.lock) {
    size_t cut = 0;
    for (size_t i = 1; i < kNumClasses && cut < bytes && v.reserve.bytes() != 0; ++i) {
      const auto c = static_cast<SizeClass>(i);
      if (only != SizeClass::kNone && c != only) continue;
      while (cut < bytes) {
        const size_t have = v.reserve.used(c);
        const size_t n = have < kMaxBatch ? have : kMaxBatch;
        if (n == 0) break;
        transfer_->Give(c, v.reserve.Newest(c, n), n);
        v.reserve.Removed(c, n, n);
        v.room_bytes -= n * InfoOf(c).size;
        cut += n * InfoOf(c).size;
      }
    }
    return cut;
  }

  // What lies in reserve goes first. Then the clock algorithm over the classes: one that missed
  // since the hand last passed is spared; the first other one that has room loses half of it, with
  // the objects that lie there.
  void TakeRoomFromOthers(Vcpu& v, SizeClass wanted) STRATA_REQUIRES(v.lock) {
    if (CutReserve(v, SizeClass::kNone, 1) != 0) return;
    for (size_t i = 0; i < 2 * kNumClasses; ++i) {
      v.clock_hand = v.clock_hand + 1 < kNumClasses ? v.clock_hand + 1 : 1;
      const auto c = static_cast<SizeClass>(v.clock_hand);
      const size_t room = RoomOf(v, c);
      if (c == wanted || room == 0) continue;
      if (v.missed_lately[Raw(c)].exchange(false, std::memory_order_relaxed)) continue;
      SlabHeader& h = slab(v.index).header(c);
      const size_t kept = room / 2;
      const size_t fill = FillOf(h, c);
      if (fill > kept) {
        constexpr size_t kAtOnce = kOnStack / 2;  // deeper down than a refill
        void* batch[kAtOnce];
        size_t left = fill - kept < kMaxBatch ? fill - kept : kMaxBatch;
        while (left != 0) {
          const size_t n = left < kAtOnce ? left : kAtOnce;
          const size_t popped = ops_.PopBatch(c, batch, n);
          if (popped != 0) transfer_->Give(c, batch, popped);
          left = popped < n ? 0 : left - n;
        }
      }
      // Looked at again: this thread may have moved, and emptied another vCPU's.
      const size_t after = FillOf(h, c);
      const size_t stays = after > kept ? after : kept;
      const size_t give = room > stays ? room - stays : 0;
      // A push under way may still fill the slot it saw; the array has the space, and the bound is
      // met later.
      h.end.store(static_cast<uint16_t>(FirstSlot(c) + room - give), std::memory_order_relaxed);
      v.room_bytes -= give * InfoOf(c).size;
      if (give != 0) return;
    }
  }

  // Both kinds; they may lose a step when two threads of one vCPU race.
  static uint64_t MissesOf(const Vcpu& v, size_t c) {
    return v.misses_alloc[c].load(std::memory_order_relaxed) +
           v.misses_free[c].load(std::memory_order_relaxed);
  }

  struct Shrinking;
  size_t DrainStopped(Slab& s, SizeClass c);
  void GiveSlots(Slab& s, SizeClass c, size_t n);
  void CutExcess(Slab& s, const ClassRoom& plan, SizeClass c);
  Shrinking RoomsOf(const Vcpu& v) const;
  bool ShrinkTo(Vcpu& v, Shrinking& plan) STRATA_REQUIRES(v.lock);
  size_t LowerLimit(Vcpu& v, size_t limit) STRATA_REQUIRES(v.lock);
  void DropIdleClasses(Vcpu& v) STRATA_REQUIRES(v.lock);
  void TakeSnapshot() STRATA_REQUIRES(vcpus_lock_);
  void Remember(Vcpu& v) STRATA_REQUIRES(vcpus_lock_);
  void ShareEqually() STRATA_REQUIRES(vcpus_lock_);
  void Raise(size_t vcpu, size_t bytes) STRATA_REQUIRES(vcpus_lock_);
  size_t LowerBy(size_t vcpu, size_t bytes) STRATA_REQUIRES(vcpus_lock_);
  size_t LowerTo(size_t vcpu, size_t limit) STRATA_REQUIRES(vcpus_lock_);

  // So many ticks of a second.
  static constexpr uint32_t kTicksBetweenResizes = 5;

  Ops ops_{};
  Transfer* transfer_ = nullptr;
  MetadataArena* arena_ = nullptr;
  char* slabs_ = nullptr;
  std::atomic<Vcpu*>* vcpus_ = nullptr;
  size_t max_vcpus_ = 0;
  std::atomic<size_t> share_{0};  // bytes
  std::atomic<size_t> pool_{0};   // bytes of the total in no vCPU's limit
  std::atomic<bool> adaptive_{true};
  CacheState* states_ STRATA_GUARDED_BY(vcpus_lock_) = nullptr;  // for Resize; one a vCPU
  size_t next_donor_ STRATA_GUARDED_BY(vcpus_lock_) = 0;
  uint32_t ticks_ = 0;  // background thread only
  // Held while a vCPU comes into use, and while limits move between them. Before a vCPU's lock.
  Lock vcpus_lock_{LockRank::kCpuCache};
};

}  // namespace strata

#include "cache/cpu_cache_remote.h"
