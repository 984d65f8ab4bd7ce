// The front end: one cache a virtual CPU, over the slabs of cache/slab.h. This file is its slow
// half, put together: what happens on a miss (cache/room_policy.h, cache/local_exchange.h), what
// others do to a vCPU (cache/remote_drain.h), and how the vCPUs share their memory
// (cache/limit_sharing.h). Sits in cache. The design is TCMalloc's (Hunter et al., OSDI 2021,
// section 3, and its design documents on per-CPU caches).
//
// Thread-safe. A class's room on a vCPU changes under that vCPU's lock; the fast half takes no
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/limit_pool.h"
#include "cache/limit_sharing.h"
#include "cache/local_exchange.h"
#include "cache/remote_drain.h"
#include "cache/room_policy.h"
#include "cache/rseq_ops.h"
#include "cache/slab.h"
#include "cache/vcpu.h"
#include "cache/vcpu_table.h"
#include "span/size_classes.h"

namespace strata {

struct CpuCacheVcpuStats {
  bool in_use = false;
  size_t room = 0;   // bytes its classes have room for
  size_t used = 0;   // bytes of the objects in it
  size_t limit = 0;  // bytes its classes may have room for
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
    ops_ = ops;
    pool_.SetShare(share_bytes);
    exchange_.Init(ops, transfer);
    room_.Init(ops, transfer, &pool_, arena);
    drain_.Init(ops, transfer);
    return vcpus_.Init(arena, slabs, max_vcpus) &&
           sharing_.Init(&vcpus_, &pool_, &drain_, arena, sizing);
  }

  void* PopSlow(SizeClass c) {
    size_t want = 1;
    if (Vcpu* v = Current()) {
      const bool again = v->misses.NoteAlloc(c);
      // Later half the room, so that a class whose objects come and go keeps space for frees. At
      // first all of it: the smallest class, too, then begins with two cache lines, and two objects
      // allocated one after the other for two threads lie on one each.
      const bool is_first = room_.RoomOf(*v, c) == 0;
      room_.MakeRoom(*v, c);
      want = is_first ? WithinBatch(c, room_.RoomOf(*v, c)) : PartOfRoom(*v, c, again);
    }
    return exchange_.Refill(c, want);
  }

  // False, with nothing done, if the object is the newest here: it was freed before.
  bool PushSlow(SizeClass c, void* object) {
    size_t n = InfoOf(c).batch;
    if (Vcpu* v = Current()) {
      const bool again = v->misses.NoteFree(c);
      if (room_.MakeRoom(*v, c) && ops_.Push(c, object) == PushResult::kPushed) return true;
      n = PartOfRoom(*v, c, again);
    }
    return exchange_.Overflow(c, object, n > 1 ? n - 1 : 1);
  }

  // Sends what this vCPU holds of the costly classes down, past the transfer cache: `below` is the
  // tier that makes spans of it.
  template <class Below>
  void GiveUpCostly(Below& below) {
    const Vcpu* v = vcpus_.Find(ops_.vcpu());
    for (size_t n = 1; v != nullptr && n < kNumClasses; ++n) {
      const auto c = static_cast<SizeClass>(n);
      if (!IsCostly(c)) continue;
      exchange_.GiveUp(c, v->slab().header(c).fill(), below);
    }
  }

  // Which frees look for the mark (mark_looks.h). Those are of the program's own path; what an
  // overflow sends down is looked at each time.
  void SetLooks(uint32_t looks) {
    if (ops_.looks() != looks) ops_.SetLooks(looks);
  }
  // Whether the object may be the newest of this vCPU. Who must know asks Holds.
  bool IsNewest(SizeClass c, const void* object) const {
    const Vcpu* v = vcpus_.Find(ops_.vcpu());
    if (v == nullptr) return false;
    const SlabHeader& h = v->slab().header(c);
    const size_t fill = h.fill();
    return fill != 0 && __atomic_load_n(&h.slots()[fill - 1], __ATOMIC_RELAXED) == object;
  }

  // --- What others do to a vCPU, whoever runs on it.

  // Empties the slab and takes all its room. Returns the bytes sent down.
  size_t Drain(size_t vcpu) {
    Vcpu* v = vcpus_.Find(vcpu);
    return v == nullptr ? 0 : drain_.Drain(*v);
  }
  void DrainAll() {
    for (Vcpu& v : vcpus_) drain_.Drain(v);
  }
  size_t DrainIfIdle(size_t vcpu, uint32_t idle_ticks) {
    Vcpu* v = vcpus_.Find(vcpu);
    return v == nullptr ? 0 : sharing_.DrainIfIdle(*v, idle_ticks);
  }
  void MoveLimits(LimitRound round) { sharing_.MoveLimits(round); }
  // Background thread, once a second.
  void Tick(uint32_t idle_ticks) {
    if (drain_.MayFence()) sharing_.Tick(idle_ticks);
  }
  void SetShare(size_t bytes) { sharing_.SetShare(bytes); }
  void SetSizing(CacheSizing sizing) { sharing_.SetSizing(sizing); }

  // Whether the object lies free on a vCPU. Never true of one that a program holds, whoever runs
  // there meanwhile: what lay in a slot when it was taken was overwritten before the fill rose
  // again above that slot, and the fill is read first.
  bool Holds(SizeClass c, const void* object) const {
    for (const Vcpu& v : vcpus_) {
      const SlabHeader& h = v.slab().header(c);
      const size_t fill = h.word.load(std::memory_order_acquire) & 0xffff;
      void* const* slots = h.array.load(std::memory_order_acquire);
      for (size_t i = 0; i < fill; ++i) {
        if (__atomic_load_n(&slots[i], __ATOMIC_RELAXED) == object) return true;
      }
    }
    return false;
  }

  // --- Statistics. Counts may lose a step when two threads of one vCPU race.

  CpuCacheClassStats Stats(SizeClass c) const {
    CpuCacheClassStats s;
    for (const Vcpu& v : vcpus_) {
      const SlabHeader& h = v.slab().header(c);
      s.objects += h.fill();
      s.pops += h.pops();
      s.misses_alloc += v.misses.allocs(c);
      s.misses_free += v.misses.frees(c);
    }
    return s;
  }
  // Of one that was ever used.
  CpuCacheVcpuStats StatsOf(size_t vcpu) const {
    CpuCacheVcpuStats s;
    const Vcpu* v = vcpus_.Find(vcpu);
    if (v == nullptr) return s;
    s.in_use = true;
    s.room = v->room();
    s.limit = v->limit();
    s.resizes = v->resizes();
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      s.used += v->slab().header(c).fill() * InfoOf(c).size;
      s.misses_alloc += v->misses.allocs(c);
      s.misses_free += v->misses.frees(c);
    }
    return s;
  }

  size_t max_vcpus() const { return vcpus_.count(); }
  size_t active_vcpus() const { return vcpus_.in_use(); }
  // Invariant: the limits of all vCPUs and the pool together are at most the total, and the room of
  // a vCPU is at most its limit.
  size_t share() const { return pool_.share(); }
  size_t total() const { return share() * active_vcpus(); }
  size_t pool() const { return pool_.bytes(); }
  size_t room_bytes(size_t vcpu) const {
    const Vcpu* v = vcpus_.Find(vcpu);
    return v == nullptr ? 0 : v->room();
  }
  size_t limit(size_t vcpu) const {
    const Vcpu* v = vcpus_.Find(vcpu);
    return v == nullptr ? 0 : v->limit();
  }
  const Ops& ops() const { return ops_; }
  void* slabs() const { return vcpus_.slabs(); }

  // For the fork handlers, which may release in the same order: a vCPU that appears meanwhile was
  // not taken, and is left alone.
  template <class F>
  void VisitLocks(F f) {
    f(vcpus_.lock);
    for (Vcpu& v : vcpus_) f(v.lock);
  }

 private:
  Vcpu* Current() {
    const size_t i = ops_.vcpu();
    Vcpu* v = vcpus_.Find(i);
    return STRATA_LIKELY(v != nullptr) ? v : vcpus_.Activate(i, [this] { return share(); });
  }

  // At least one.
  static size_t WithinBatch(SizeClass c, size_t n) {
    if (n == 0) return 1;
    return n < InfoOf(c).batch ? n : InfoOf(c).batch;
  }
  // For one miss. Of a costly class there is room for few, so that a program which allocates many
  // in a row and then frees them misses all the time: at the second miss of a kind in turn, all of
  // it. No more is taken off spans for that than for any miss (ClassInfo::carved).
  size_t PartOfRoom(const Vcpu& v, SizeClass c, bool again) const {
    const size_t room = room_.RoomOf(v, c);
    return IsCostly(c) && again && room != 0 ? room : WithinBatch(c, room / 2 + 1);
  }

  Ops ops_{};
  VcpuTable vcpus_;
  LimitPool pool_;
  LocalExchange<Ops, Transfer> exchange_;
  RoomPolicy<Ops, Transfer> room_;
  RemoteDrain<Ops, Transfer> drain_;
  LimitSharing<RemoteDrain<Ops, Transfer>> sharing_;
};

}  // namespace strata
