// The part of the per-CPU caches that works on a vCPU from outside, whoever runs on it: draining,
// and moving room between vCPUs as cache_resizer.h plans it. Included by cpu_cache.h only. Sits in
// cache; papers §2.8, §4.
//
// A slab that a sequence on another CPU may be using is changed in three steps, under the vCPU's
// lock. Stop: pushes, or both operations, fail from now on. Fence: sequences that had read the old
// bounds are aborted. Change; and where the fill was changed, fence again, because a sequence that
// started while the class was stopped may have read the old fill and not yet compared it with the
// bounds. Then open. A refused fence leaves the class stopped, or as it was: slower, never wrong.
#pragma once

#include <cstring>

#include "cache/cpu_cache.h"

namespace strata {

template <class Ops, class Transfer>
size_t CpuCache<Ops, Transfer>::Drain(size_t vcpu) {
  Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
  if (v == nullptr) return 0;
  // Where the fence is known to be refused the slab stays as it is, in use.
  if (!ops_.MayFence()) return 0;
  LockHolder hold(v->lock);
  if (v->room_bytes == 0) return 0;
  Slab& s = slab(vcpu);
  for (size_t c = 1; c < kNumClasses; ++c) s.Stop(static_cast<SizeClass>(c));
  const bool fenced = ops_.Fence();
  size_t bytes = CutReserve(*v, SizeClass::kNone, SIZE_MAX);
  if (!fenced) return bytes;
  for (size_t i = 1; i < kNumClasses; ++i) bytes += DrainStopped(s, static_cast<SizeClass>(i));
  if (!ops_.Fence()) return bytes;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    s.Restart(c, FirstSlot(c));
  }
  v->room_bytes = 0;
  return bytes;
}

template <class Ops, class Transfer>
size_t CpuCache<Ops, Transfer>::DrainStopped(Slab& s, SizeClass c) {
  SlabHeader& h = s.header(c);
  const uint64_t word = h.word.load(std::memory_order_relaxed);
  const size_t n = (word & 0xffff) - FirstSlot(c);
  GiveSlots(s, c, n);
  h.word.store((word & ~uint64_t{0xffff}) | FirstSlot(c), std::memory_order_relaxed);
  return n * InfoOf(c).size;
}

// The lowest n objects, which have lain longest. The caller takes them off.
template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::GiveSlots(Slab& s, SizeClass c, size_t n) {
  for (size_t at = FirstSlot(c); n != 0;) {
    const size_t k = n < kMaxBatch ? n : kMaxBatch;
    transfer_->Give(c, s.slot(at), k);
    at += k;
    n -= k;
  }
}

template <class Ops, class Transfer>
size_t CpuCache<Ops, Transfer>::DrainIfIdle(size_t vcpu, uint32_t idle_ticks) {
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
  const size_t bytes = Drain(vcpu);
  LockHolder hold(vcpus_lock_);
  if (adaptive_.load(std::memory_order_relaxed)) {
    LockHolder hold_v(v->lock);
    pool_ += LowerLimit(*v, ResizeOptions{share()}.Floor());
    v->gave_up_share = true;
  }
  return bytes;
}

// A plan for each class of one vCPU; class 0 has no room.
template <class Ops, class Transfer>
struct CpuCache<Ops, Transfer>::Shrinking {
  ClassRoom classes[kNumClasses];
};

template <class Ops, class Transfer>
typename CpuCache<Ops, Transfer>::Shrinking CpuCache<Ops, Transfer>::RoomsOf(const Vcpu& v) const {
  Shrinking s;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    const auto room = static_cast<uint32_t>(RoomOf(v, c));
    s.classes[i] = {InfoOf(c).size, room, room, MissesOf(v, i) != v.seen_misses[i]};
  }
  return s;
}

// Brings each class's room down to what the plan keeps; what lies above goes to the tier below.
// Pushes are stopped first. Only classes that hold more than they keep are stopped for pops too, so
// a cache with free room shrinks without one of its users noticing. False, with all or some of the
// room as it was, if a fence is refused.
template <class Ops, class Transfer>
bool CpuCache<Ops, Transfer>::ShrinkTo(Vcpu& v, Shrinking& plan) {
  Slab& s = slab(v.index);
  bool any = false;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    const ClassRoom& k = plan.classes[i];
    if (k.keep == k.room) continue;
    any = true;
    s.header(c).end.store(static_cast<uint16_t>(FirstSlot(c) + k.keep), std::memory_order_relaxed);
  }
  if (!any) return true;
  const bool fenced = ops_.Fence();
  bool stopped[kNumClasses] = {};
  bool any_stopped = false;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    const ClassRoom& k = plan.classes[i];
    if (k.keep == k.room) continue;
    if (!fenced) {  // a push may still fill what it saw: the room stays
      s.header(c).end.store(static_cast<uint16_t>(FirstSlot(c) + k.room),
                            std::memory_order_relaxed);
    } else if (FillOf(s.header(c), c) > k.keep) {
      s.Stop(c);
      stopped[i] = any_stopped = true;
    } else {
      v.room_bytes -= size_t{k.room - k.keep} * k.size;
    }
  }
  if (!fenced) return false;
  if (!any_stopped) return true;
  if (ops_.Fence()) {
    for (size_t i = 1; i < kNumClasses; ++i) {
      if (stopped[i]) CutExcess(s, plan.classes[i], static_cast<SizeClass>(i));
    }
    if (!ops_.Fence()) return false;  // stopped, with the room on the books, until it is drained
    for (size_t i = 1; i < kNumClasses; ++i) {
      if (!stopped[i]) continue;
      v.room_bytes -= size_t{plan.classes[i].room - plan.classes[i].keep} * plan.classes[i].size;
      s.Open(static_cast<SizeClass>(i), plan.classes[i].keep);
    }
    return true;
  }
  for (size_t i = 1; i < kNumClasses; ++i) {
    if (stopped[i]) s.Open(static_cast<SizeClass>(i), plan.classes[i].room);  // nothing was changed
  }
  return false;
}

// Of a stopped and fenced class. The newest objects stay, as they are the warmest.
template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::CutExcess(Slab& s, const ClassRoom& k, SizeClass c) {
  SlabHeader& h = s.header(c);
  const uint64_t word = h.word.load(std::memory_order_relaxed);
  const size_t fill = (word & 0xffff) - FirstSlot(c);
  if (fill <= k.keep) return;  // popped from before the fence
  const size_t excess = fill - k.keep;
  GiveSlots(s, c, excess);
  memmove(s.slot(FirstSlot(c)), s.slot(FirstSlot(c) + excess), k.keep * sizeof(void*));
  h.word.store((word & ~uint64_t{0xffff}) | (FirstSlot(c) + k.keep), std::memory_order_relaxed);
}

// Returns by how much the limit is lower now: nothing if the objects could not be taken.
template <class Ops, class Transfer>
size_t CpuCache<Ops, Transfer>::LowerLimit(Vcpu& v, size_t limit) {
  const size_t before = v.limit.load(std::memory_order_relaxed);
  if (limit >= before) return 0;
  size_t room = v.room_bytes.load(std::memory_order_relaxed);
  if (room > limit) room -= CutReserve(v, SizeClass::kNone, room - limit);
  if (room > limit) {
    Shrinking plan = RoomsOf(v);
    PlanShrink(plan.classes, kNumClasses, room - limit);
    ShrinkTo(v, plan);
    if (v.room_bytes.load(std::memory_order_relaxed) > limit) return 0;
  }
  v.limit = limit;
  ++v.resizes;
  return before - limit;
}

// A class whose word did not change had no push and no pop: the word counts the pops.
template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::DropIdleClasses(Vcpu& v) {
  constexpr size_t kWorthAFence = 16 << 10;
  Shrinking plan = RoomsOf(v);
  size_t bytes = 0;
  for (size_t i = 1; i < kNumClasses; ++i) {
    const SlabHeader& h = slab(v.index).header(static_cast<SizeClass>(i));
    if (h.word.load(std::memory_order_relaxed) != v.seen_word[i] || plan.classes[i].missed)
      continue;
    CutReserve(v, static_cast<SizeClass>(i), SIZE_MAX);
    bytes += size_t{plan.classes[i].room} * plan.classes[i].size;
    plan.classes[i].keep = 0;
  }
  if (bytes >= kWorthAFence) ShrinkTo(v, plan);
}

template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::TakeSnapshot() {
  for (size_t i = 0; i < max_vcpus_; ++i) {
    CacheState& state = states_[i] = {};
    const Vcpu* v = vcpus_[i].load(std::memory_order_acquire);
    if (v == nullptr) continue;
    state.in_use = true;
    state.limit = v->limit.load(std::memory_order_relaxed);
    state.room = v->room_bytes.load(std::memory_order_relaxed);
    for (size_t c = 1; c < kNumClasses; ++c) state.misses += MissesOf(*v, c) - v->seen_misses[c];
  }
}

template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::Resize() {
  LockHolder hold(vcpus_lock_);
  if (!adaptive_.load(std::memory_order_relaxed)) return;
  const auto each = [&](auto f) {
    for (size_t i = 0; i < max_vcpus_; ++i) {
      Vcpu* v = vcpus_[i].load(std::memory_order_acquire);
      if (v == nullptr) continue;
      LockHolder hold_v(v->lock);
      f(*v);
    }
  };
  each([&](Vcpu& v) STRATA_NO_TSA { DropIdleClasses(v); });
  TakeSnapshot();
  const ResizePlan plan =
      PlanResize(states_, max_vcpus_, pool(), next_donor_, ResizeOptions{share()});
  next_donor_ = plan.next_donor;
  for (size_t t = 0; t < plan.takers; ++t) Raise(plan.taker[t], TakeFromPool(plan.from_pool[t]));
  for (size_t m = 0; m < plan.moves; ++m) {
    const CacheMove& move = plan.move[m];
    Raise(move.to, LowerBy(move.from, move.bytes));
  }
  each([&](Vcpu& v) STRATA_NO_TSA { Remember(v); });
}

template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::Repay() {
  LockHolder hold(vcpus_lock_);
  const size_t share = this->share();
  for (size_t i = 0; i < max_vcpus_; ++i) {
    Vcpu* v = vcpus_[i].load(std::memory_order_acquire);
    if (v == nullptr || !v->gave_up_share) continue;
    const size_t limit = this->limit(i);
    if (limit < share && room_bytes(i) < limit - limit / 8) continue;  // still resting
    v->gave_up_share = false;
    if (limit >= share) continue;
    size_t got = TakeFromPool(share - limit);
    for (size_t d = 0; d < max_vcpus_ && limit + got < share; ++d) {
      const size_t missing = share - limit - got;
      const size_t extra = this->limit(d) > share ? this->limit(d) - share : 0;
      got += LowerBy(d, extra < missing ? extra : missing);
    }
    Raise(i, got);
  }
}

template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::Remember(Vcpu& v) {
  for (size_t c = 1; c < kNumClasses; ++c) {
    const SlabHeader& h = slab(v.index).header(static_cast<SizeClass>(c));
    v.seen_word[c] = h.word.load(std::memory_order_relaxed);
    v.seen_misses[c] = MissesOf(v, c);
  }
}

template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::Raise(size_t vcpu, size_t bytes) {
  Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
  LockHolder hold(v->lock);
  AddLimit(*v, bytes);
}

template <class Ops, class Transfer>
size_t CpuCache<Ops, Transfer>::LowerBy(size_t vcpu, size_t bytes) {
  Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
  if (v == nullptr || bytes == 0) return 0;
  LockHolder hold(v->lock);
  const size_t limit = v->limit.load(std::memory_order_relaxed);
  return LowerLimit(*v, limit > bytes ? limit - bytes : 0);
}

// Returns the limit that the vCPU then has: at most `limit`, unless it could not be lowered. A
// claim holds the vCPU's lock from its taking to its adding, so it is counted here in full.
template <class Ops, class Transfer>
size_t CpuCache<Ops, Transfer>::LowerTo(size_t vcpu, size_t limit) {
  Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
  if (v == nullptr) return 0;
  LockHolder hold(v->lock);
  LowerLimit(*v, limit);
  return v->limit.load(std::memory_order_relaxed);
}

// First those above come down, then those below go up as far as the total goes: one that could not
// be lowered (a refused fence) leaves less for the others. The pool goes first: once a vCPU was
// visited, no claim changes its limit any more.
template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::ShareEqually() {
  pool_ = 0;
  const size_t share = this->share();
  size_t sum = 0;
  for (size_t i = 0; i < max_vcpus_; ++i) sum += LowerTo(i, share);
  const size_t total = this->total();
  for (size_t i = 0; i < max_vcpus_ && sum < total; ++i) {
    if (vcpus_[i].load(std::memory_order_acquire) == nullptr || limit(i) >= share) continue;
    const size_t lacking = share - limit(i);
    const size_t more = lacking < total - sum ? lacking : total - sum;
    Raise(i, more);
    sum += more;
  }
}

template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::SetShare(size_t bytes) {
  LockHolder hold(vcpus_lock_);
  share_ = bytes;
  ShareEqually();
}

template <class Ops, class Transfer>
void CpuCache<Ops, Transfer>::SetSizing(CacheSizing sizing) {
  LockHolder hold(vcpus_lock_);
  adaptive_ = sizing == CacheSizing::kByMisses;
  ShareEqually();
}

template <class Ops, class Transfer>
CpuCacheVcpuStats CpuCache<Ops, Transfer>::StatsOf(size_t vcpu) const {
  CpuCacheVcpuStats s;
  const Vcpu* v = vcpus_[vcpu].load(std::memory_order_acquire);
  if (v == nullptr) return s;
  s.in_use = true;
  s.room = v->room_bytes.load(std::memory_order_relaxed);
  s.limit = v->limit.load(std::memory_order_relaxed);
  s.resizes = v->resizes.load(std::memory_order_relaxed);
  s.reserve = v->reserve.bytes();
  for (size_t i = 1; i < kNumClasses; ++i) {
    const auto c = static_cast<SizeClass>(i);
    s.used += (FillOf(slab(vcpu).header(c), c) + v->reserve.used(c)) * InfoOf(c).size;
    s.misses_alloc += v->misses_alloc[i].load(std::memory_order_relaxed);
    s.misses_free += v->misses_free[i].load(std::memory_order_relaxed);
  }
  return s;
}

}  // namespace strata
