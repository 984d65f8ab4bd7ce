// Moves limits between the per-CPU caches: once a tick the plan of cache/cache_resizer.h says what
// each limit should be; first those above it come down, which fills the pool, then those below it
// rise as far as the pool goes. Misses claim from the same pool (cache/limit_pool.h). Sits in
// cache.
//
// Thread-safe; limits move under the table's lock, and each changes under its vCPU's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/cache_resizer.h"
#include "cache/limit_pool.h"
#include "cache/vcpu.h"
#include "cache/vcpu_table.h"

namespace strata {

enum class CacheSizing : bool { kEqual, kByMisses };

// Drain: a RemoteDrain.
template <class Drain>
class LimitSharing {
 public:
  // Returns false when memory for the snapshots is refused.
  bool Init(VcpuTable* vcpus, LimitPool* pool, Drain* drain, MetadataArena* arena,
            CacheSizing sizing) {
    vcpus_ = vcpus;
    pool_ = pool;
    drain_ = drain;
    LockHolder hold(vcpus_->lock);
    sizing_.store(sizing, std::memory_order_relaxed);
    states_ = static_cast<CacheState*>(arena->Allocate(vcpus->count() * sizeof(CacheState), 64));
    return states_ != nullptr;
  }

  // Background thread, once a tick for each vCPU: drains it if nothing was popped or pushed for
  // `idle_ticks` calls; its part of the total goes to others then. Returns the bytes sent down.
  size_t DrainIfIdle(Vcpu& v, uint32_t idle_ticks) STRATA_EXCLUDES(vcpus_->lock) {
    if (v.room() == 0 || !v.idle.Look(v.slab(), idle_ticks)) return 0;
    const size_t bytes = drain_->Drain(v);
    LockHolder hold(vcpus_->lock);
    v.rests = true;  // SetSizing clears it
    return bytes;
  }

  // Nothing unless limits follow the misses. A round by need also takes the room of classes that
  // nobody used since the last one.
  void MoveLimits(LimitRound round) STRATA_EXCLUDES(vcpus_->lock) {
    LockHolder hold(vcpus_->lock);
    if (!Adaptive()) return;
    if (round == LimitRound::kNeed) {
      for (Vcpu& v : *vcpus_) {
        LockHolder hold_v(v.lock);
        drain_->DropIdleClasses(v);
      }
    }
    const ResizeOptions options{pool_->share()};
    TakeSnapshot(round, options);
    next_donor_ = PlanLimits(states_, vcpus_->count(), round, next_donor_, options);
    if (PlanMovesAny()) CarryOut();
    if (round == LimitRound::kNeed) {
      for (Vcpu& v : *vcpus_) v.seen.Remember(v.slab(), v.misses);
    }
  }

  // Background thread, once a second.
  void Tick(uint32_t idle_ticks) {
    for (Vcpu& v : *vcpus_) DrainIfIdle(v, idle_ticks);
    MoveLimits(++ticks_ % kTicksBetweenNeeds == 0 ? LimitRound::kNeed : LimitRound::kRest);
  }

  // Any thread: what each vCPU in use brings to the total, and whether they may share it unequally.
  // Both put every vCPU back to its share.
  void SetShare(size_t bytes) STRATA_EXCLUDES(vcpus_->lock) {
    LockHolder hold(vcpus_->lock);
    pool_->SetShare(bytes);
    ShareEqually();
  }
  void SetSizing(CacheSizing sizing) STRATA_EXCLUDES(vcpus_->lock) {
    LockHolder hold(vcpus_->lock);
    sizing_.store(sizing, std::memory_order_relaxed);
    ShareEqually();
  }

 private:
  // So many ticks of a second.
  static constexpr uint32_t kTicksBetweenNeeds = 5;

  bool Adaptive() const {
    return sizing_.load(std::memory_order_relaxed) == CacheSizing::kByMisses;
  }

  void TakeSnapshot(LimitRound round, const ResizeOptions& options) STRATA_REQUIRES(vcpus_->lock) {
    for (size_t i = 0; i < vcpus_->count(); ++i) {
      CacheState& state = states_[i] = {};
      Vcpu* v = vcpus_->Find(i);
      if (v == nullptr) continue;
      state.in_use = true;
      state.limit = v->limit();
      state.room = v->room();
      if (round == LimitRound::kNeed) state.misses = v->seen.MissesOfAll(v->misses);
      // One that rests has been drained; it woke when it has filled what it kept.
      state.woke = v->rests && IsFull(state.room, options.Floor());
      v->rests = v->rests && !state.woke;
      state.rests = v->rests;
    }
  }

  bool PlanMovesAny() const STRATA_REQUIRES(vcpus_->lock) {
    for (const CacheState* s = states_; s != states_ + vcpus_->count(); ++s) {
      if (s->target != s->limit) return true;
    }
    return false;
  }

  void ShareEqually() STRATA_REQUIRES(vcpus_->lock) {
    for (CacheState* s = states_; s != states_ + vcpus_->count(); ++s) s->target = pool_->share();
    for (Vcpu& v : *vcpus_) v.rests = false;
    CarryOut();
  }

  // The pool is empty while limits are summed up, so that no claim changes one that was visited; a
  // claim holds its vCPU's lock from the taking to the adding, so it is counted in full. A limit
  // that could not be lowered (a refused fence) leaves less for the others.
  void CarryOut() STRATA_REQUIRES(vcpus_->lock) {
    pool_->Set(0);
    size_t limits = 0;
    size_t total = 0;
    for (Vcpu& v : *vcpus_) {
      LockHolder hold(v.lock);
      const size_t target = states_[v.index()].target;
      if (v.limit() > target) drain_->LowerLimit(v, target);
      limits += v.limit();
      total += pool_->share();
    }
    pool_->Set(total > limits ? total - limits : 0);
    for (Vcpu& v : *vcpus_) {
      LockHolder hold(v.lock);
      pool_->Raise(v, states_[v.index()].target);
    }
  }

  VcpuTable* vcpus_ = nullptr;
  LimitPool* pool_ = nullptr;
  Drain* drain_ = nullptr;
  std::atomic<CacheSizing> sizing_{CacheSizing::kByMisses};
  CacheState* states_ STRATA_GUARDED_BY(vcpus_->lock) = nullptr;  // one a vCPU
  size_t next_donor_ STRATA_GUARDED_BY(vcpus_->lock) = 0;
  uint32_t ticks_ = 0;  // background thread only
};

}  // namespace strata
