// The front end of the process heap, which serves nearly every call: a cache for each virtual CPU,
// or where those cannot be used one for each thread; below them small transfer caches for each
// domain of CPUs that share a cache of their own. Sits in heaps, on top of the shared transfer
// cache. It belongs to CPUs and threads, so there is one a process; tests of the tiers below make
// heaps without (NoFrontEnd).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "cache/cpu_cache.h"
#include "cache/domain_transfer_cache.h"
#include "cache/thread_cache.h"

namespace strata {

// What caches served, and hold now.
struct CacheCounts {
  size_t bytes = 0;
  uint64_t hits = 0;
  uint64_t misses_alloc = 0;
  uint64_t misses_free = 0;

  template <class Cache>
  void Add(const Cache& cache) {
    bytes += cache.bytes.load(std::memory_order_relaxed);
    hits += cache.hits.load(std::memory_order_relaxed);
    misses_alloc += cache.misses_alloc.load(std::memory_order_relaxed);
    misses_free += cache.misses_free.load(std::memory_order_relaxed);
  }
};

// The caches of all threads, for statistics and fork. Those of ended threads serve others.
template <class Transfer>
class ThreadCaches {
 public:
  explicit ThreadCaches(MetadataArena& arena) : arena_(arena), pool_(arena) {}

  // One more, also in `place` before the lock is let go; null when memory is short.
  ThreadCache* Add(ThreadCache*& place) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    ThreadCache* cache = spare_;
    if (cache != nullptr) {
      spare_ = cache->next;
    } else {
      cache = pool_.New();
      if (cache == nullptr) return nullptr;
      cache->Bind(arena_);
    }
    cache->next = first_;
    cache->previous = nullptr;
    if (cache->next != nullptr) cache->next->previous = cache;
    first_ = cache;
    place = cache;
    return cache;
  }

  // Its thread ends; what it holds goes down.
  void End(ThreadCache* cache, Transfer& below) STRATA_EXCLUDES(lock_) {
    cache->Flush(below);
    LockHolder hold(lock_);
    ended_.Add(*cache);  // no bytes: it is flushed
    cache->ForgetCounts();
    if (cache->next != nullptr) cache->next->previous = cache->previous;
    (cache->previous != nullptr ? cache->previous->next : first_) = cache->next;
    cache->next = spare_;
    spare_ = cache;
  }

  // The caller's own at once, others at their next miss: nobody else can empty them.
  void Flush(ThreadCache* own, Transfer& below) STRATA_EXCLUDES(lock_) {
    if (own != nullptr) own->Flush(below);
    LockHolder hold(lock_);
    for (ThreadCache* t = first_; t != nullptr; t = t->next) {
      if (t != own) t->flush_wanted.store(true, std::memory_order_relaxed);
    }
  }

  // Whether the object lies free in one of them. Others may change theirs meanwhile; what a program
  // holds is in none of them, before or after.
  bool Holds(SizeClass c, const void* object) STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    for (const ThreadCache* t = first_; t != nullptr; t = t->next) {
      if (t->Holds(c, object)) return true;
    }
    return false;
  }

  // Those of ended threads included.
  CacheCounts Counts() STRATA_EXCLUDES(lock_) {
    LockHolder hold(lock_);
    CacheCounts sum = ended_;
    for (const ThreadCache* t = first_; t != nullptr; t = t->next) sum.Add(*t);
    return sum;
  }

  Lock& lock() STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  MetadataArena& arena_;
  Lock lock_{LockRank::kThreadList};
  RecordPool<ThreadCache> pool_ STRATA_GUARDED_BY(lock_);
  ThreadCache* first_ STRATA_GUARDED_BY(lock_) = nullptr;
  ThreadCache* spare_ STRATA_GUARDED_BY(lock_) = nullptr;  // linked by `next`
  CacheCounts ended_ STRATA_GUARDED_BY(lock_);
};

// Ops: CpuCache's. Where: DomainTransferCache's. Shared: the transfer cache below.
template <class Ops, class Where, class Shared>
struct FrontEnd {
  using Transfer = DomainTransferCache<Shared, Where>;
  using Threads = ThreadCaches<Transfer>;

  FrontEnd(Shared& shared, MetadataArena& arena) : threads(arena) {
    transfer.Init(&shared, &arena);
  }

  // About once a second, before the tiers below have theirs: what lies idle goes down.
  void Tick(uint32_t idle_ticks) {
    if (per_cpu) cpu.Tick(idle_ticks);
    transfer.Tick();
  }

  // Whether the object lies free in here.
  bool Holds(SizeClass c, const void* object) {
    return (per_cpu && cpu.Holds(c, object)) || threads.Holds(c, object) ||
           transfer.Holds(c, object);
  }

  // Sends what lies free in here down, that of the calling thread's own cache included.
  void Empty(ThreadCache* own) {
    threads.Flush(own, transfer);
    if (per_cpu) cpu.DrainAll();
    transfer.Flush();
  }

  // All but the list of threads', in the order in which they may be taken.
  template <class F>
  void VisitLocks(F f) {
    if (per_cpu) cpu.VisitLocks(f);
    transfer.VisitLocks(f);
  }

  Transfer transfer;
  CpuCache<Ops, Transfer> cpu;
  bool per_cpu = false;  // `cpu` is in use; set once, before there are threads
  Threads threads;
};

template <class Shared>
struct NoFrontEnd {
  NoFrontEnd(Shared&, MetadataArena&) {}
  template <class F>
  void VisitLocks(F) {}
};

}  // namespace strata
