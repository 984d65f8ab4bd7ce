// Transfer caches by cache domain (Zhou et al., ASPLOS 2024, section 4.2): over the shared transfer
// cache lies a small one for each last-level-cache domain, so that an object freed in a domain is
// handed out there again, while its lines are still in that cache. Only while the program runs in
// more than one domain; until then, and on machines with one, each call is passed on. Sits in
// cache, between the front end and the shared transfer cache.
//
// Thread-safe. The domains' locks are of the transfer caches' rank and are dropped before the
// shared one is called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/transfer_cache.h"
#include "os/topology.h"
#include "span/size_classes.h"

namespace strata {

struct DomainStats {
  size_t cpus = 0;
  size_t objects = 0;
  size_t bytes = 0;
  bool active = false;
};

// Shared: a TransferCache. Where: static size_t Cpu(), the CPU that the calling thread runs on (not
// the virtual one: only a real one lies in a domain).
template <class Shared, class Where>
class DomainTransferCache {
 public:
  // A domain's stacks hold a quarter of the shared one's.
  using Domain = TransferCache<Shared, 4>;

  void Init(Shared* shared, MetadataArena* arena) {
    shared_ = shared;
    arena_ = arena;
  }

  // From the thread that ticks: reading it is nothing to do at a program's start. False: there is
  // no memory now, and it does without. Once it was true, not again.
  bool SetTopology(const CacheTopology& topology) {
    PerDomain* domains = nullptr;
    if (topology.domains > 1) {
      void* memory = arena_->Allocate(sizeof(PerDomain), alignof(PerDomain));
      if (memory == nullptr) return false;
      domains = ::new (memory) PerDomain();
      domains->topology = topology;
    }
    // release: pairs with the acquire in All(), so that the topology is seen whole.
    domains_.store(domains, std::memory_order_release);
    return true;
  }

  size_t Take(SizeClass c, void** out, size_t n) {
    Domain* here = Here();
    return here == nullptr ? shared_->Take(c, out, n) : here->Take(c, out, n);
  }
  void Give(SizeClass c, void* const* objects, size_t n) {
    Domain* here = Here();
    here == nullptr ? shared_->Give(c, objects, n) : here->Give(c, objects, n);
  }

  // Background thread, before the shared cache is drained: what lay unused in a domain since the
  // last tick flows back; all of it from a domain in which nothing runs any more, or if nothing
  // runs in more than one.
  void Tick() {
    PerDomain* all = All();
    if (all == nullptr) return;
    size_t in_use = 0;
    for (State& s : *all) {
      if (s.touched.exchange(false, std::memory_order_relaxed)) {
        s.unused_ticks = 0;
      } else if (s.unused_ticks <= kTicksInUse) {
        ++s.unused_ticks;
      }
      in_use += s.unused_ticks < kTicksInUse;
    }
    const bool several_in_use = in_use > 1;
    if (several_in_use) MakeCaches(*all);
    for (State& s : *all) {
      const bool active =
          several_in_use && s.unused_ticks < kTicksInUse && s.cache.load() != nullptr;
      s.active.store(active, std::memory_order_relaxed);
      DrainUnused(s, active ? DrainScope::kUnused : DrainScope::kAll);
    }
  }

  // Everything goes to the shared cache: before malloc fails, or when memory is asked back.
  void Flush() {
    if (PerDomain* all = All())
      for (State& s : *all) DrainUnused(s, DrainScope::kAll);
  }

  // Of the domains' caches and of the shared one.
  void GiveUpCostly() {
    ForEachCache([](Domain& cache) { cache.GiveUpCostly(); });
    shared_->GiveUpCostly();
  }

  // In a domain's.
  bool Holds(SizeClass c, const void* object) {
    bool holds = false;
    ForEachCache([&](Domain& cache) { holds = holds || cache.Holds(c, object); });
    return holds;
  }

  size_t used(SizeClass c) const {
    size_t sum = 0;
    ForEachCache([&](const Domain& cache) { sum += cache.used(c); });
    return sum;
  }

  size_t domains() const {
    const PerDomain* all = All();
    return all == nullptr ? 0 : all->topology.domains;
  }
  DomainStats StatsOf(size_t d) const {
    const PerDomain& all = *All();
    const State& s = all.states[d];
    DomainStats out;
    out.cpus = all.topology.cpus_in[d];
    out.active = s.active.load(std::memory_order_relaxed);
    const Domain* cache = s.cache.load(std::memory_order_acquire);
    for (size_t i = 1; cache != nullptr && i < kNumClasses; ++i) {
      const auto c = static_cast<SizeClass>(i);
      out.objects += cache->used(c);
      out.bytes += cache->used(c) * InfoOf(c).size;
    }
    return out;
  }

  // For the fork handlers, before the shared cache's locks; see CpuCache.
  template <class F>
  void VisitLocks(F f) {
    f(making_lock_);
    ForEachCache([&f](Domain& cache) { cache.VisitLocks(f); });
  }

 private:
  // A domain in which nothing went through here for so long is no longer in use.
  static constexpr uint32_t kTicksInUse = 10;

  struct alignas(64) State {
    std::atomic<Domain*> cache{nullptr};  // made once, never dropped
    std::atomic<bool> active{false};
    std::atomic<bool> touched{false};     // since the last tick
    uint32_t unused_ticks = kTicksInUse;  // background thread only
  };

  // Made once the process is known to run on several domains: others do without the memory.
  struct PerDomain {
    CacheTopology topology;
    State states[CacheTopology::kMostDomains];
    State* begin() { return states; }
    State* end() { return states + topology.domains; }
  };

  PerDomain* All() const { return domains_.load(std::memory_order_acquire); }

  template <class F>
  void ForEachCache(F f) const {
    PerDomain* all = All();
    if (all == nullptr) return;
    for (State& s : *all)
      if (Domain* cache = s.cache.load(std::memory_order_acquire)) f(*cache);
  }

  // The cache of the calling thread's domain, if it is active.
  Domain* Here() {
    PerDomain* all = All();
    if (STRATA_LIKELY(all == nullptr)) return nullptr;
    const size_t d = all->topology.DomainOf(Where::Cpu());
    if (d == CacheTopology::kNoDomain) return nullptr;
    State& s = all->states[d];
    if (!s.touched.load(std::memory_order_relaxed))
      s.touched.store(true, std::memory_order_relaxed);
    if (!s.active.load(std::memory_order_relaxed)) return nullptr;
    return s.cache.load(std::memory_order_acquire);
  }

  void MakeCaches(PerDomain& all) {
    LockHolder hold(making_lock_);
    for (State& s : all) {
      if (s.unused_ticks >= kTicksInUse || s.cache.load(std::memory_order_relaxed) != nullptr)
        continue;
      auto* cache = arena_->New<Domain>();
      if (cache == nullptr) return;  // tried again at the next tick
      cache->Init(shared_, arena_);
      // release: pairs with the acquire of its users, who see it whole.
      s.cache.store(cache, std::memory_order_release);
    }
  }

  static void DrainUnused(State& s, DrainScope scope) {
    Domain* cache = s.cache.load(std::memory_order_acquire);
    for (size_t c = 1; cache != nullptr && c < kNumClasses; ++c)
      cache->DrainUnused(static_cast<SizeClass>(c), scope);
  }

  Shared* shared_ = nullptr;
  MetadataArena* arena_ = nullptr;
  std::atomic<PerDomain*> domains_{nullptr};  // set once
  Lock making_lock_{LockRank::kTransfer};
};

}  // namespace strata
