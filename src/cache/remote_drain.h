// Takes objects and room from a vCPU from outside, whoever runs on it: drains its slab, or shrinks
// it below a limit as cache/cache_resizer.h plans it. Sits in cache. The steps are those of
// TCMalloc (design documents, "Restartable sequences": stop, fence, change).
//
// A slab that a sequence on another CPU may be using is changed in three steps, under the vCPU's
// lock. Stop: pushes, or both operations, fail from now on. Fence: sequences that had read the old
// bounds are aborted. Change; and where the fill was changed, fence again, because a sequence that
// started while the class was stopped may have read the old fill and not yet compared it with the
// bounds. Then open. A refused fence leaves the class as it
// was or, once it was changed, stopped: slower, never wrong.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cache/cache_resizer.h"
#include "cache/vcpu.h"
#include "span/size_classes.h"

namespace strata {

// Ops and Transfer: see cache/cpu_cache.h; of Ops only the fence.
template <class Ops, class Transfer>
class RemoteDrain {
 public:
  void Init(const Ops& ops, Transfer* transfer) {
    ops_ = ops;
    transfer_ = transfer;
  }

  bool MayFence() const { return ops_.MayFence(); }

  // Empties the slab and takes all its room. Returns the bytes sent down.
  size_t Drain(Vcpu& v) STRATA_EXCLUDES(v.lock) {
    // Where the fence is known to be refused the slab stays as it is, in use.
    if (!MayFence()) return 0;
    LockHolder hold(v.lock);
    if (v.room() == 0) return 0;
    Slab& s = v.slab();
    uint16_t rooms[kNumClasses];
    StopAll(s, rooms);
    if (!ops_.Fence()) {  // nothing was changed
      OpenAll(s, rooms);
      return 0;
    }
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i) bytes += DrainStopped(s, static_cast<SizeClass>(i));
    if (!ops_.Fence()) return bytes;
    for (size_t i = 1; i < kNumClasses; ++i) {
      if (const auto c = static_cast<SizeClass>(i); s.IsMade(c)) s.Open(c, 0);
    }
    v.DropRoom(v.room());
    return bytes;
  }

  // False, with the limit as it was, if the objects above it could not be taken.
  bool LowerLimit(Vcpu& v, size_t limit) STRATA_REQUIRES(v.lock) {
    if (v.room() > limit) {
      Shrinking plan = RoomsOf(v);
      PlanShrink(plan.classes, kNumClasses, v.room() - limit);
      Shrink(v, plan);
      if (v.room() > limit) return false;
    }
    if (limit < v.limit()) v.SetLimit(limit);
    return true;
  }

  // Takes the room of the classes that were not used since `v.seen` was taken, if that is worth a
  // fence.
  void DropIdleClasses(Vcpu& v) STRATA_REQUIRES(v.lock) {
    constexpr size_t kWorthAFence = 16 << 10;
    Shrinking plan = RoomsOf(v);
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i) {
      if (v.seen.Used(v.slab(), v.misses, static_cast<SizeClass>(i))) continue;
      bytes += size_t{plan.classes[i].room} * plan.classes[i].size;
      plan.classes[i].keep = 0;
    }
    if (bytes >= kWorthAFence) Shrink(v, plan);
  }

 private:
  // A plan for each class of one vCPU; class 0 has no room.
  struct Shrinking {
    ClassRoom classes[kNumClasses];
  };

  static constexpr uint16_t kLeftAlone = 0xffff;  // it waits for a fence, and still does; or unused

  static void StopAll(Slab& s, uint16_t (&rooms)[kNumClasses]) {
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      rooms[i] =
          s.IsStopped(c) || !s.IsMade(c) ? kLeftAlone : static_cast<uint16_t>(s.header(c).room());
      if (s.IsMade(c)) s.Stop(c);
    }
  }
  static void OpenAll(Slab& s, const uint16_t (&rooms)[kNumClasses]) {
    for (size_t i = 1; i < kNumClasses; ++i) {
      if (rooms[i] != kLeftAlone) s.Open(static_cast<SizeClass>(i), rooms[i]);
    }
  }

  size_t DrainStopped(Slab& s, SizeClass c) {
    SlabHeader& h = s.header(c);
    const size_t n = h.fill();
    if (n == 0) return 0;  // not written to: most classes were never made
    SetFill(h, 0);
    GiveSlots(h.slots(), c, n);
    return n * InfoOf(c).size;
  }

  // Those that the fill covers no more: from here on others take them, and CpuCache::Holds must not
  // find here what a program has.
  void GiveSlots(void* const* slots, SizeClass c, size_t n) {
    while (n != 0) {
      const size_t k = n < kMaxBatch ? n : kMaxBatch;
      transfer_->Give(c, slots, k);
      slots += k;
      n -= k;
    }
  }

  static Shrinking RoomsOf(const Vcpu& v) {
    Shrinking s;
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      const auto room = static_cast<uint32_t>(v.slab().header(c).room());
      s.classes[i] = {InfoOf(c).size, room, room, v.seen.Missed(v.misses, c)};
    }
    return s;
  }

  // Brings each class's room down to what the plan keeps; what lies above goes to the tier below.
  // Pushes are stopped first. Only classes that hold more than they keep are stopped for pops too,
  // so a cache with free room shrinks without one of its users noticing. With a refused fence, all
  // or some of the room is as it was.
  void Shrink(Vcpu& v, const Shrinking& plan) STRATA_REQUIRES(v.lock) {
    Slab& s = v.slab();
    if (!SetEnds(s, plan, &ClassRoom::keep)) return;
    if (!ops_.Fence()) {  // a push may still fill what it saw: the room stays
      SetEnds(s, plan, &ClassRoom::room);
      return;
    }
    if (!StopThoseAbove(v, plan)) return;
    if (!ops_.Fence()) {  // nothing was changed
      OpenStopped(s, plan, &ClassRoom::room);
      return;
    }
    for (size_t i = 1; i < kNumClasses; ++i) {
      if (IsStopped(s, plan, i)) CutExcess(s, plan.classes[i], static_cast<SizeClass>(i));
    }
    if (!ops_.Fence()) return;  // stopped, with the room on the books, until it is drained
    v.DropRoom(OpenStopped(s, plan, &ClassRoom::keep));
  }

  // Returns whether the plan changes any.
  static bool SetEnds(Slab& s, const Shrinking& plan, uint32_t ClassRoom::* room) {
    bool any = false;
    for (size_t i = 1; i < kNumClasses; ++i) {
      const ClassRoom& k = plan.classes[i];
      if (k.keep == k.room) continue;
      any = true;
      s.header(static_cast<SizeClass>(i))
          .end.store(static_cast<uint16_t>(k.*room), std::memory_order_relaxed);
    }
    return any;
  }

  // Those that hold more than they keep; the others are done. Returns whether any was stopped.
  static bool StopThoseAbove(Vcpu& v, const Shrinking& plan) STRATA_REQUIRES(v.lock) {
    bool any = false;
    for (size_t i = 1; i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      const ClassRoom& k = plan.classes[i];
      if (k.keep == k.room) continue;
      if (v.slab().header(c).fill() > k.keep) {
        v.slab().Stop(c);
        any = true;
      } else {
        v.DropRoom(size_t{k.room - k.keep} * k.size);
      }
    }
    return any;
  }

  // By StopThoseAbove. One that a refused fence had left stopped before has no room to lose.
  static bool IsStopped(Slab& s, const Shrinking& plan, size_t i) {
    return plan.classes[i].keep != plan.classes[i].room && s.IsStopped(static_cast<SizeClass>(i));
  }

  // With what the plan keeps, or all they had. Returns the bytes by which they are smaller.
  static size_t OpenStopped(Slab& s, const Shrinking& plan, uint32_t ClassRoom::* room) {
    size_t bytes = 0;
    for (size_t i = 1; i < kNumClasses; ++i) {
      if (!IsStopped(s, plan, i)) continue;
      const ClassRoom& k = plan.classes[i];
      s.Open(static_cast<SizeClass>(i), k.*room);
      bytes += size_t{k.room - k.*room} * k.size;
    }
    return bytes;
  }

  // Of a stopped and fenced class. The newest objects stay, which are the warmest.
  void CutExcess(Slab& s, const ClassRoom& k, SizeClass c) {
    SlabHeader& h = s.header(c);
    const size_t fill = h.fill();
    if (fill <= k.keep) return;  // popped from before the fence
    const size_t excess = fill - k.keep;
    std::rotate(h.slots(), h.slots() + excess, h.slots() + fill);
    SetFill(h, k.keep);
    GiveSlots(h.slots() + k.keep, c, excess);
  }

  Ops ops_{};
  Transfer* transfer_ = nullptr;
};

}  // namespace strata
