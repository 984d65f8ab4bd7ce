// An APR pool on a reap: the record behind apr_pool_t, which APR's users never look into. All of
// its contents, cleanups included, lie in the reap; the record itself does not, since clearing the
// reap would take it along. Sits in servers/apr, over strata/reap.h (reaps: Berger, Zorn and
// McKinley, OOPSLA 2002).
//
// Threads are as with APR's own pools: a pool belongs to one thread at a time, but several may make
// and destroy children of one pool.
#pragma once

#include <apr_allocator.h>
#include <apr_hash.h>
#include <apr_pools.h>
#include <apr_thread_proc.h>

#include "strata/layers/detail/family.h"
#include "strata/layers/thread/locked.h"
#include "strata/reap.h"

#define STRATA_APR_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata::apr {

using CleanupFunction = apr_status_t (*)(void*);

struct Cleanup {
  Cleanup* next;
  const void* data;
  CleanupFunction run;
  CleanupFunction run_in_child;  // before exec, in a forked child
};

struct Subprocess {
  Subprocess* next;
  apr_proc_t* process;
  apr_kill_conditions_e how;
};

}  // namespace strata::apr

struct apr_pool_t {
  const char* tag = nullptr;  // first: the mark of a freed block takes a half of the first word
  strata_reap* reap = nullptr;
  apr_abortfunc_t abort = nullptr;
  apr_allocator_t* allocator = nullptr;  // for buckets, which take memory from it; we do not
  strata::layers::FutexLock lock;        // the children's links, and `spare`
  // A child that is gone, with a cleared reap, for the next one: the requests of a connection come
  // one after the other, and find what they touch in the cache.
  apr_pool_t* spare = nullptr;
  strata_reap* resting =
      nullptr;  // the reap of a spare, whose `reap` is null for who still uses it
  strata::layers::FamilyLinks<apr_pool_t> family;
  strata::apr::Cleanup* pre_cleanups = nullptr;
  strata::apr::Cleanup* cleanups = nullptr;
  strata::apr::Subprocess* subprocesses = nullptr;
  apr_hash_t* userdata = nullptr;
};

namespace strata::apr {

using Tree = layers::Family<apr_pool_t, &apr_pool_t::family>;

// Calls the pool's abort function on failure.
[[gnu::noinline]] void* AllocateSlow(apr_pool_t* pool, size_t size);
// A request makes some hundred of these calls, which is most of what its pool costs.
inline void* Allocate(apr_pool_t* pool, size_t size) {
  if (pool->reap != nullptr) [[likely]] {
    if (void* p = strata_reap_malloc_window(pool->reap, size)) [[likely]]
      return p;
  }
  return AllocateSlow(pool, size);
}
template <class T>
T* New(apr_pool_t* pool) {
  return static_cast<T*>(Allocate(pool, sizeof(T)));
}

// The newest first; what one registers while it runs is run, too.
inline void RunCleanups(Cleanup** list) {
  while (const Cleanup* c = *list) {
    *list = c->next;
    c->run(const_cast<void*>(c->data));
  }
}
void RunChildCleanups(apr_pool_t* pool);  // of the pools below, too
// Signals and waits for the processes noted in the pool, as each asks.
void EndSubprocesses(apr_pool_t* pool);

apr_pool_t* GlobalPool();

}  // namespace strata::apr
