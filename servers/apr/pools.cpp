// The life of pools: start and end of APR, create, clear, destroy, and who is whose child. The
// order in which things end is APR's, since programs count on it: pre-cleanups, children, cleanups,
// processes, memory.
#include <apr_atomic.h>
#include <apr_thread_mutex.h>
#include <dlfcn.h>
#include <stdlib.h>

#include <mutex>
#include <new>
#include <utility>

#include "pool.h"

namespace strata::apr {
namespace {

// apr_initialize() and apr_terminate() are called by one thread, as APR says.
int g_initialized = 0;
apr_pool_t* g_global = nullptr;

using Hold = std::lock_guard<layers::FutexLock>;

// What a spare reap may hold; a connection that rests should not keep the memory of a large
// request.
constexpr size_t kSpareBytes = 32 << 10;
constexpr size_t kFirstChunk = 8 << 10;
constexpr size_t kChunkHeader = 64;

// An empty pool below the parent: its spare, or a new one. Null: no memory.
apr_pool_t* Make(apr_pool_t* parent) {
  if (parent != nullptr) {
    const Hold hold(parent->lock);
    if (apr_pool_t* spare = std::exchange(parent->spare, nullptr)) {
      strata_reap* reap = spare->resting;
      auto* pool = ::new (spare) apr_pool_t();
      pool->reap = reap;
      Tree::Join(pool, parent);
      return pool;
    }
  }
  void* raw = malloc(sizeof(apr_pool_t));
  strata_reap* reap = raw == nullptr ? nullptr : strata_reap_create(nullptr);
  if (reap == nullptr) {
    free(raw);
    return nullptr;
  }
  auto* pool = ::new (raw) apr_pool_t();
  pool->reap = reap;
  if (parent != nullptr) {
    const Hold hold(parent->lock);
    Tree::Join(pool, parent);
  }
  return pool;
}

// The pool, whose reap holds so much, leaves its parent. Whether that keeps it as its spare.
bool Rests(apr_pool_t* pool, size_t held) {
  apr_pool_t* parent = pool->family.parent;
  if (parent == nullptr) return false;
  const Hold hold(parent->lock);
  Tree::Leave(pool);
  if (held > kSpareBytes || parent->spare != nullptr) return false;
  // What lay in several chunks gets one, so that the next request takes none.
  const size_t used = held > kFirstChunk ? strata_reap_bytes(pool->reap) + kChunkHeader : 0;
  strata_reap_clear(pool->reap);
  if (used != 0 && strata_reap_held(pool->reap) < used) strata_reap_reserve(pool->reap, used);
  pool->resting = std::exchange(pool->reap, nullptr);
  parent->spare = pool;
  return true;
}

void EndSpare(apr_pool_t* pool) {
  apr_pool_t* spare = std::exchange(pool->spare, nullptr);
  if (spare == nullptr) return;
  strata_reap_destroy(spare->resting);
  free(spare);
}

apr_status_t Fail(apr_abortfunc_t abort_function) {
  if (abort_function != nullptr) abort_function(APR_ENOMEM);
  return APR_ENOMEM;
}

apr_status_t Create(apr_pool_t** made, apr_pool_t* parent, apr_abortfunc_t abort_function,
                    apr_allocator_t* allocator) {
  *made = nullptr;
  apr_pool_t* pool = Make(parent);
  if (pool == nullptr) return Fail(abort_function);
  pool->abort = abort_function;
  pool->allocator = allocator;
  *made = pool;
  return APR_SUCCESS;
}

// All that has to happen before the memory goes.
void End(apr_pool_t* pool) {
  RunCleanups(&pool->pre_cleanups);
  while (apr_pool_t* child = pool->family.first_child) apr_pool_destroy(child);
  RunCleanups(&pool->cleanups);
  if (pool->subprocesses != nullptr) EndSubprocesses(pool);
  pool->userdata = nullptr;
}

void DestroyOwned(apr_allocator_t* allocator, const apr_pool_t* pool) {
  if (allocator == nullptr || apr_allocator_owner_get(allocator) != pool) return;
  apr_allocator_mutex_set(allocator, nullptr);  // it lay in the pool
  apr_allocator_destroy(allocator);
}

apr_status_t MakeGlobal() {
  apr_allocator_t* allocator;
  if (apr_status_t status = apr_allocator_create(&allocator)) return status;
  if (apr_status_t status = Create(&g_global, nullptr, nullptr, allocator)) {
    apr_allocator_destroy(allocator);
    return status;
  }
  apr_allocator_owner_set(allocator, g_global);
  g_global->tag = "APR global pool";
  apr_thread_mutex_t* mutex;
  apr_status_t status = apr_atomic_init(g_global);
  if (status == APR_SUCCESS)
    status = apr_thread_mutex_create(&mutex, APR_THREAD_MUTEX_DEFAULT, g_global);
  if (status == APR_SUCCESS) {
    apr_allocator_mutex_set(allocator, mutex);
  } else {
    apr_pool_destroy(g_global);
    g_global = nullptr;
  }
  return status;
}

// APR's own. Its start also prepares apr_allocator_alloc, which buckets take memory from; the pool
// that it makes, through us, is one more that nobody uses.
template <class F>
F* Original(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

apr_pool_t* GlobalPool() { return g_global; }

}  // namespace strata::apr

using strata::apr::g_global;
using strata::apr::g_initialized;

STRATA_APR_EXPORT apr_status_t apr_pool_initialize(void) {
  if (g_initialized++ != 0) return APR_SUCCESS;
  auto* original = strata::apr::Original<apr_status_t()>("apr_pool_initialize");
  apr_status_t status = original == nullptr ? APR_ENOTIMPL : original();
  if (status == APR_SUCCESS) status = strata::apr::MakeGlobal();
  if (status != APR_SUCCESS) g_initialized = 0;
  return status;
}

STRATA_APR_EXPORT void apr_pool_terminate(void) {
  if (g_initialized == 0 || --g_initialized != 0) return;
  apr_pool_destroy(g_global);
  g_global = nullptr;
  if (auto* original = strata::apr::Original<void()>("apr_pool_terminate")) original();
}

STRATA_APR_EXPORT apr_status_t apr_pool_create_ex(apr_pool_t** newpool, apr_pool_t* parent,
                                                  apr_abortfunc_t abort_fn,
                                                  apr_allocator_t* allocator) {
  if (parent == nullptr) parent = g_global;
  if (parent != nullptr) {
    if (abort_fn == nullptr) abort_fn = parent->abort;
    if (allocator == nullptr) allocator = parent->allocator;
  }
  return strata::apr::Create(newpool, parent, abort_fn, allocator);
}

STRATA_APR_EXPORT apr_status_t apr_pool_create_unmanaged_ex(apr_pool_t** newpool,
                                                            apr_abortfunc_t abort_fn,
                                                            apr_allocator_t* allocator) {
  *newpool = nullptr;
  if (g_initialized == 0) return APR_ENOPOOL;
  apr_allocator_t* own = nullptr;
  if (allocator == nullptr) {
    if (apr_allocator_create(&own) != APR_SUCCESS) return strata::apr::Fail(abort_fn);
    allocator = own;
  }
  const apr_status_t status = strata::apr::Create(newpool, nullptr, abort_fn, allocator);
  if (own != nullptr) {
    if (status == APR_SUCCESS) {
      apr_allocator_owner_set(own, *newpool);
    } else {
      apr_allocator_destroy(own);
    }
  }
  return status;
}

// The name of the function above before APR 1.3.
STRATA_APR_EXPORT apr_status_t apr_pool_create_core_ex(apr_pool_t** newpool,
                                                       apr_abortfunc_t abort_fn,
                                                       apr_allocator_t* allocator) {
  return apr_pool_create_unmanaged_ex(newpool, abort_fn, allocator);
}

STRATA_APR_EXPORT void apr_pool_clear(apr_pool_t* pool) {
  strata::apr::End(pool);
  strata_reap_clear(pool->reap);
}

STRATA_APR_EXPORT void apr_pool_destroy(apr_pool_t* pool) {
  strata::apr::End(pool);
  // Ends the program when the pool was destroyed before.
  const size_t held = strata_reap_held(pool->reap);
  if (pool->reap == nullptr) return;
  strata::apr::EndSpare(pool);
  strata::apr::DestroyOwned(pool->allocator, pool);
  if (strata::apr::Rests(pool, held)) return;
  strata_reap_destroy(std::exchange(pool->reap, nullptr));
  free(pool);
}

STRATA_APR_EXPORT apr_pool_t* apr_pool_parent_get(apr_pool_t* pool) { return pool->family.parent; }

STRATA_APR_EXPORT int apr_pool_is_ancestor(apr_pool_t* a, apr_pool_t* b) {
  return a == nullptr || strata::apr::Tree::IsWithin(b, a) ? 1 : 0;
}

STRATA_APR_EXPORT apr_allocator_t* apr_pool_allocator_get(apr_pool_t* pool) {
  return pool->allocator;
}

STRATA_APR_EXPORT void apr_pool_abort_set(apr_abortfunc_t abort_fn, apr_pool_t* pool) {
  pool->abort = abort_fn;
}
STRATA_APR_EXPORT apr_abortfunc_t apr_pool_abort_get(apr_pool_t* pool) { return pool->abort; }

STRATA_APR_EXPORT void apr_pool_tag(apr_pool_t* pool, const char* tag) { pool->tag = tag; }
