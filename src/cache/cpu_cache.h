// The front end: one cache a virtual CPU, over the slabs of cache/slab.h. This file is its slow
// half: what happens on a miss (refill, overflow, growth under the vCPU's limit by taking room from
// other classes) and the draining of a slab from another CPU. Sits in cache; papers §2.8, §4;
// design §3.
//
// Thread-safe. A class's room on a vCPU changes under that vCPU's lock; the fast half takes no
// lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/rseq_ops.h"
#include "cache/slab.h"
#include "span/size_classes.h"

namespace strata {

struct CpuCacheClassStats {
  size_t objects = 0;
  uint64_t pops = 0;  // hits, and the refills' own pops never count
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;
};

// Ops runs on the calling thread's vCPU: Pop, Push, PopBatch, PushBatch as in rseq_ops.h, size_t
// vcpu(), bool Fence(). Transfer: Take and Give of batches.
template <class Ops, class Transfer>
class CpuCache {
 public:
  // `slabs` is zeroed memory for max_vcpus slabs. Returns false when memory for its own records is
  // refused.
  bool Init(const Ops& ops, Transfer* transfer, MetadataArena* arena, void* slabs, size_t max_vcpus,
            size_t limit_bytes) {
    ops_ = ops;
    transfer_ = transfer;
    slabs_ = static_cast<char*>(slabs);
    max_vcpus_ = max_vcpus;
    limit_ = limit_bytes;
    arena_ = arena;
    vcpus_ = static_cast<std::atomic<Vcpu*>*>(
        arena->Allocate(max_vcpus * sizeof(std::atomic<Vcpu*>), 64));
    return vcpus_ != nullptr;
  }

  void* PopSlow(SizeClass c) {
    void* batch[kMaxBatch];
    size_t want = 1;
    if (Vcpu* v = Current()) {
      NoteMiss(*v, v->misses_alloc, c);
      MakeRoom(*v, c);
      const size_t room = RoomOf(*v, c);
      const size_t n = InfoOf(c).batch;
      // Half the room, so that a class whose objects come and go at random keeps space for frees.
      want = room / 2 + 1 < n ? room / 2 + 1 : n;
    }
    const size_t got = transfer_->Take(c, batch, want);
    if (got == 0) return nullptr;
    if (got > 1) {
      const size_t kept = ops_.PushBatch(c, batch + 1, got - 1);
      if (kept < got - 1) transfer_->Give(c, batch + 1 + kept, got - 1 - kept);
    }
    return batch[0];
  }

  // False, with nothing done, if the object is the newest here: it was freed before.
  bool PushSlow(SizeClass c, void* object) {
    size_t n = InfoOf(c).batch;
    if (Vcpu* v = Current()) {
      NoteMiss(*v, v->misses_free, c);
      if (MakeRoom(*v, c) && ops_.Push(c, object) == PushResult::kPushed) return true;
      const size_t room = RoomOf(*v, c);
      n = room / 2 + 1 < n ? room / 2 + 1 : n;
    }
    void* batch[kMaxBatch];
    const size_t wanted = n > 1 ? n - 1 : 1;
    const size_t popped = ops_.PopBatch(c, batch, wanted);
    if (popped != 0 && batch[popped - 1] == object) {
      const size_t kept = ops_.PushBatch(c, batch, popped);
      if (kept < popped) transfer_->Give(c, batch + kept, popped - kept);
      return false;
    }
    batch[popped] = object;
    transfer_->Give(c, batch, popped + 1);
    return true;
  }

  // Empties a vCPU's slab and takes all its room, whoever runs on it. Returns the bytes sent down.
  size_t Drain(size_t vcpu) {
    Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
    if (v == nullptr) return 0;
    LockHolder hold(v->lock);
    if (v->room_bytes == 0) return 0;
    Slab& s = slab(vcpu);
    for (size_t c = 1; c < kNumClasses; ++c) s.Stop(static_cast<SizeClass>(c));
    // Sequences that read the old bounds are aborted here; later ones see a stopped slab.
    if (!ops_.Fence()) return 0;
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i) bytes += DrainStopped(s, static_cast<SizeClass>(i));
    // A sequence may have read the fill before it was reset: abort it before the slab opens again.
    if (!ops_.Fence()) return bytes;
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      s.Restart(c, FirstSlot(c));
    }
    v->room_bytes = 0;
    return bytes;
  }

  void DrainAll() {
    for (size_t v = 0; v < max_vcpus_; ++v) Drain(v);
  }

  // Called once a tick for each vCPU: drains it if nothing was popped or pushed for `idle_ticks`
  // calls.
  size_t DrainIfIdle(size_t vcpu, uint32_t idle_ticks) {
    Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
    if (v == nullptr || v->room_bytes == 0) return 0;
    uint64_t mark = 0;
    for (size_t c = 1; c < kNumClasses; ++c) {
      // An odd multiplier per class, so that opposite changes in two classes do not cancel.
      mark += slab(vcpu).header(static_cast<SizeClass>(c)).word.load(std::memory_order_relaxed) *
              (2 * c + 1);
    }
    if (mark != v->mark) {
      v->mark = mark;
      v->idle_ticks = 0;
      return 0;
    }
    if (++v->idle_ticks < idle_ticks) return 0;
    v->idle_ticks = 0;
    return Drain(vcpu);
  }

  CpuCacheClassStats Stats(SizeClass c) const {
    CpuCacheClassStats s;
    for (size_t i = 0; i < max_vcpus_; ++i) {
      const Vcpu* v = vcpus_[i].load(std::memory_order_acquire);
      if (v == nullptr) continue;
      SlabHeader& h = slab(i).header(c);
      const size_t fill = h.fill();
      s.objects += fill > FirstSlot(c) ? fill - FirstSlot(c) : 0;
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
  size_t limit() const { return limit_; }
  const Ops& ops() const { return ops_; }
  void* slabs() const { return slabs_; }

  // The fork handlers. The activation lock is the first taken and the last released: no vCPU
  // appears between, so the same locks are released as were taken.
  void AcquireLocks() STRATA_NO_TSA {
    activation_lock_.Acquire();
    for (size_t i = 0; i < max_vcpus_; ++i) {
      if (Vcpu* v = vcpus_[i].load(std::memory_order_relaxed)) v->lock.Acquire();
    }
  }
  void ReleaseLocks() STRATA_NO_TSA {
    for (size_t i = 0; i < max_vcpus_; ++i) {
      if (Vcpu* v = vcpus_[i].load(std::memory_order_relaxed)) v->lock.Release();
    }
    activation_lock_.Release();
  }

 private:
  struct Vcpu {
    Lock lock{LockRank::kCpuCache};
    std::atomic<size_t> room_bytes{0};  // sum over classes of room × size; written under lock
    uint32_t clock_hand = 1;       // the class looked at last when room had to be found; under lock
    uint32_t misses_at_limit = 0;  // under lock
    uint32_t idle_ticks = 0;       // background thread only
    uint64_t mark = 0;             // background thread only
    size_t index = 0;
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
    LockHolder hold(activation_lock_);
    if (Vcpu* v = vcpus_[i].load(std::memory_order_acquire)) return v;
    Slab& s = slab(i);
    for (size_t c = 1; c < kNumClasses; ++c) {
      SlabHeader& h = s.header(static_cast<SizeClass>(c));
      h.begin.store(0xffff, std::memory_order_relaxed);
      h.word.store(FirstSlot(static_cast<SizeClass>(c)), std::memory_order_relaxed);
    }
    // A push that read the zero fill must not see room: abort it before there is any. Only then the
    // record, which could not be given back: a refused fence comes here again at each miss.
    if (!ops_.Fence()) return nullptr;
    auto* v = arena_->New<Vcpu>();
    if (v == nullptr) return nullptr;
    v->index = i;
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
    if (grow != 0 && v.room_bytes + grow * info.size > limit_) {
      // At the limit most misses leave the division as it is, or two busy classes would take the
      // same room from each other at every miss. A class without any gets some at once.
      constexpr uint32_t kMissesPerTaking = 16;
      if (room == 0 || ++v.misses_at_limit % kMissesPerTaking == 0) TakeRoomFromOthers(v, c);
      const size_t left = v.room_bytes >= limit_ ? 0 : (limit_ - v.room_bytes) / info.size;
      if (grow > left) grow = left;
    }
    if (grow != 0) {
      v.room_bytes += grow * info.size;
      h.end.store(static_cast<uint16_t>(FirstSlot(c) + room + grow), std::memory_order_relaxed);
    }
    v.lock.Release();
    return grow != 0;
  }

  // The clock algorithm over the classes: one that missed since the hand last passed is spared;
  // the first other one that has room loses half of it, with the objects that lie there.
  void TakeRoomFromOthers(Vcpu& v, SizeClass wanted) STRATA_REQUIRES(v.lock) {
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
        void* batch[kMaxBatch];
        const size_t n = fill - kept < kMaxBatch ? fill - kept : kMaxBatch;
        const size_t popped = ops_.PopBatch(c, batch, n);
        if (popped != 0) transfer_->Give(c, batch, popped);
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

  size_t DrainStopped(Slab& s, SizeClass c) {
    SlabHeader& h = s.header(c);
    const uint64_t word = h.word.load(std::memory_order_relaxed);
    size_t left = (word & 0xffff) - FirstSlot(c);
    size_t at = FirstSlot(c);
    const size_t bytes = left * InfoOf(c).size;
    while (left != 0) {
      const size_t n = left < kMaxBatch ? left : kMaxBatch;
      transfer_->Give(c, s.slot(at), n);
      at += n;
      left -= n;
    }
    h.word.store((word & ~uint64_t{0xffff}) | FirstSlot(c), std::memory_order_relaxed);
    return bytes;
  }

  Ops ops_{};
  Transfer* transfer_ = nullptr;
  MetadataArena* arena_ = nullptr;
  char* slabs_ = nullptr;
  std::atomic<Vcpu*>* vcpus_ = nullptr;
  size_t max_vcpus_ = 0;
  size_t limit_ = 0;
  Lock activation_lock_{LockRank::kCpuCache};
};

// The production Ops: sequences on the calling thread.
struct RseqOps {
  RseqSlabs where{};
  void* slabs = nullptr;
  RseqInfo info{};

  void* Pop(SizeClass c) const { return RseqPop(where, slabs, c); }
  PushResult Push(SizeClass c, void* object) const { return RseqPush(where, slabs, c, object); }
  size_t PopBatch(SizeClass c, void** out, size_t n) const {
    return RseqPopBatch(where, slabs, c, out, n);
  }
  size_t PushBatch(SizeClass c, void* const* objects, size_t n) const {
    return RseqPushBatch(where, slabs, c, objects, n);
  }
  size_t vcpu() const { return CurrentVcpu(info); }
  bool Fence() const { return FenceRseq(); }
};

}  // namespace strata
