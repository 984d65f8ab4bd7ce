// How much each class may hold on one vCPU, within the vCPU's limit: on a miss a class grows by a
// step, takes room from other classes where the limit is reached, and moves to a longer array when
// its own is full. Sits in cache, used by the misses of cache/cpu_cache.h, on the missing thread.
//
// Everything here happens under the vCPU's lock, which is only tried: who finds it taken misses
// without growing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/metadata_arena.h"
#include "cache/limit_pool.h"
#include "cache/vcpu.h"
#include "span/size_classes.h"

namespace strata {

// Ops and Transfer: see cache/cpu_cache.h.
template <class Ops, class Transfer>
class RoomPolicy {
 public:
  void Init(const Ops& ops, Transfer* transfer, LimitPool* pool, MetadataArena* arena) {
    ops_ = ops;
    transfer_ = transfer;
    pool_ = pool;
    arena_ = arena;
  }

  static size_t RoomOf(const Vcpu& v, SizeClass c) { return v.slab().header(c).room(); }

  // Gives the class some more room if its array and the vCPU's limit allow, taking it from other
  // classes where need be. Returns whether it grew.
  bool MakeRoom(Vcpu& v, SizeClass c) {
    if (RoomOf(v, c) >= InfoOf(c).cpu_slots) return false;
    if (!v.lock.TryAcquire()) return false;
    const bool grew = Grow(v, c);
    v.lock.Release();
    return grew;
  }

 private:
  bool Grow(Vcpu& v, SizeClass c) STRATA_REQUIRES(v.lock) {
    // A slab that a drainer could not fence stays stopped.
    if (v.slab().IsStopped(c)) return false;
    if (!v.slab().IsMade(c)) v.slab().Make(c);
    const ClassInfo& info = InfoOf(c);
    SlabHeader& h = v.slab().header(c);
    const size_t room = h.room();
    const size_t most = info.cpu_slots - room;
    size_t grow = most < StepOf(c, room) ? most : StepOf(c, room);
    if (grow * info.size > v.left()) pool_->Claim(v);
    if (grow * info.size > v.left()) {
      FindRoom(v, c);
      if (grow > v.left() / info.size) grow = v.left() / info.size;
    }
    if (room + grow > h.capacity && !Relocate(v, c, room + grow)) grow = h.capacity - room;
    if (grow == 0) return false;
    v.AddRoom(grow * info.size);
    // release: who sees room sees the array of a class that was made just now.
    h.end.store(static_cast<uint16_t>(room + grow), std::memory_order_release);
    return true;
  }

  // A class begins with what lies in the slab itself, and grows by a quarter of a batch.
  static size_t StepOf(SizeClass c, size_t room) {
    const size_t step = InfoOf(c).batch < 4 ? 1 : InfoOf(c).batch / 4;
    return room == 0 && step > Slab::kFirstSlots ? Slab::kFirstSlots : step;
  }

  // At the limit most misses leave the division as it is, or two busy classes would take the same
  // room from each other at every miss. A class without any gets some at once, unless it is one
  // that can't have any here.
  void FindRoom(Vcpu& v, SizeClass c) STRATA_REQUIRES(v.lock) {
    constexpr uint32_t kMissesPerTaking = 16;
    const size_t size = InfoOf(c).size;
    uint32_t takings = RoomOf(v, c) == 0 ? 8 : ++v.misses_at_limit % kMissesPerTaking == 0;
    // Too large for any room here; or all of it is this class's already.
    if (size > v.limit() || v.room() == RoomOf(v, c) * size) takings = 0;
    while (takings-- != 0 && v.left() < size) TakeRoomFromOthers(v, c);
  }

  // The clock algorithm over the classes: one that missed since the hand last passed is spared; the
  // first other one that has room loses half of it.
  void TakeRoomFromOthers(Vcpu& v, SizeClass wanted) STRATA_REQUIRES(v.lock) {
    for (size_t i = 0; i < 2 * kNumClasses; ++i) {
      v.clock_hand = v.clock_hand + 1 < kNumClasses ? v.clock_hand + 1 : 1;
      const auto c = static_cast<SizeClass>(v.clock_hand);
      if (c == wanted || RoomOf(v, c) == 0 || v.misses.TakeLately(c)) continue;
      if (HalveRoom(v, c)) return;
    }
  }

  // With the objects that lie there. False if nothing came free.
  bool HalveRoom(Vcpu& v, SizeClass c) STRATA_REQUIRES(v.lock) {
    SlabHeader& h = v.slab().header(c);
    const size_t room = h.room();
    const size_t kept = room / 2;
    const size_t fill = h.fill();
    if (fill > kept) SendDown(c, fill - kept < kMaxBatch ? fill - kept : kMaxBatch);
    // Looked at again: this thread may have moved, and emptied another vCPU's.
    const size_t after = h.fill();
    const size_t stays = after > kept ? after : kept;
    const size_t give = room > stays ? room - stays : 0;
    // A push under way may still fill the slot it saw; the array has the space, and the bound is
    // met later.
    h.end.store(static_cast<uint16_t>(room - give), std::memory_order_relaxed);
    v.DropRoom(give * InfoOf(c).size);
    return give != 0;
  }

  void SendDown(SizeClass c, size_t n) {
    constexpr size_t kAtOnce = kOnStack / 2;  // deeper down than a refill
    void* batch[kAtOnce];
    while (n != 0) {
      const size_t some = n < kAtOnce ? n : kAtOnce;
      const size_t popped = ops_.PopBatch(c, batch, some);
      if (popped != 0) transfer_->Give(c, batch, popped);
      n = popped < some ? 0 : n - some;
    }
  }

  // Gives the class an array four times as long, or long enough for `wanted` slots. False, with
  // nothing changed, when memory is short or the thread has moved to another vCPU.
  //
  // The class is stopped meanwhile. Who finds the thread still on this vCPU then knows, without a
  // fence, that every sequence which saw the old bounds is sent back to its start. One that begins
  // later, on wherever the vCPU is by then, reads the array after the bounds: it either fails or
  // sees the new one.
  bool Relocate(Vcpu& v, SizeClass c, size_t wanted) STRATA_REQUIRES(v.lock) {
    Slab& s = v.slab();
    SlabHeader& h = s.header(c);
    if (!EnsureSpare(v, LongerArray(c, h.capacity, wanted))) return false;
    const size_t room = h.room();
    s.Stop(c);
    if (const bool stayed = ops_.IsOn(v.index()); !stayed) {
      s.Open(c, room);
      return false;
    }
    memcpy(v.spare, h.slots(), h.fill() * sizeof(void*));
    h.array.store(v.spare, std::memory_order_relaxed);
    h.capacity = static_cast<uint16_t>(v.spare_capacity);
    v.spare = nullptr;
    v.spare_capacity = 0;
    s.Open(c, room);
    return true;
  }

  static size_t LongerArray(SizeClass c, size_t now, size_t wanted) {
    size_t capacity = (now + 1) * 4 - 1;
    if (capacity < wanted) capacity = wanted;
    return capacity < InfoOf(c).cpu_slots ? capacity : InfoOf(c).cpu_slots;
  }

  bool EnsureSpare(Vcpu& v, size_t capacity) STRATA_REQUIRES(v.lock) {
    if (v.spare_capacity >= capacity) return true;
    // One slot more, below the first: see SlabHeader.
    auto* memory = static_cast<void**>(arena_->Allocate((capacity + 1) * sizeof(void*), 64));
    if (memory == nullptr) return false;
    v.spare = memory + 1;
    v.spare_capacity = capacity;
    return true;
  }

  Ops ops_{};
  Transfer* transfer_ = nullptr;
  LimitPool* pool_ = nullptr;
  MetadataArena* arena_ = nullptr;
};

}  // namespace strata
